import { z } from 'zod'

const MINUTE = 60_000
const MIB = 1024 * 1024

const bytes = (standard: number) => z.int().min(1_024).default(standard)

/** Options of a gateway, validated once when it starts. All durations are in milliseconds. */
export const gatewayOptions = z.strictObject({
  host: z.string().min(1).default('127.0.0.1'),
  /** TCP port; 0 picks a free one. */
  port: z.int().min(0).max(65_535).default(7420),
  /** Maximum size of a request body in bytes; pass larger contexts over NATS. */
  body_bytes: bytes(8 * MIB),
  /** Maximum bytes of outputs that one response loads; read larger outputs over NATS. */
  output_bytes: bytes(8 * MIB),
  /** Maximum bytes of responses that clients have not read yet, in total and per token. */
  answers_bytes: bytes(128 * MIB),
  answers_bytes_a_token: bytes(32 * MIB),
  /** Maximum number of request bodies read concurrently, in total and per token, and their maximum total size in bytes. */
  uploads: z.int().min(1).default(32),
  uploads_a_token: z.int().min(1).default(8),
  uploads_bytes: bytes(64 * MIB),
  /** Milliseconds without a received byte after which reading a body is aborted. */
  stall_ms: z.int().min(10).default(10_000),
  /** Rate limit per token: requests per second, and burst size. */
  rate_per_second: z.number().positive().default(50),
  rate_burst: z.int().min(1).default(200),
  /** Maximum number of passes per agent whose returns the gateway waits for. */
  awaited_an_agent: z.int().min(1).default(10_000),
  /** Maximum number of open event feeds, in total and per token. */
  feeds: z.int().min(1).default(200),
  feeds_a_token: z.int().min(1).default(20),
  /** Milliseconds between checks that the token of an open feed is still valid. */
  recheck_ms: z.int().min(10).default(2_000),
  heartbeat_ms: z.int().min(10).default(15_000),
  /** Milliseconds after which a feed disconnects a reader that reads nothing. The reader can resume from its last event id. */
  slow_ms: z.int().min(10).default(30_000),
  /** Maximum wait in milliseconds that `Prefer: wait=` can request. */
  most_wait_ms: z.int().min(0).default(60_000),
  /** Milliseconds after which an unused connection is closed. */
  idle_ms: z
    .int()
    .min(100)
    .default(5 * MINUTE),
  /** Maximum number of open connections under the names of token owners. */
  identities: z.int().min(1).default(200),
})
export type GatewayOptions = z.infer<typeof gatewayOptions>
export type GatewaySettings = z.input<typeof gatewayOptions>
