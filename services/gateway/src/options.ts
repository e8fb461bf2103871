import { z } from 'zod'

const MINUTE = 60_000
const MIB = 1024 * 1024

const bytes = (standard: number) => z.int().min(1_024).default(standard)

/** Options of a gateway, validated once at the edge. Times in ms. */
export const gatewayOptions = z.strictObject({
  host: z.string().min(1).default('127.0.0.1'),
  /** 0: any free one. */
  port: z.int().min(0).max(65_535).default(7420),
  /** Largest body; context above it goes by NATS. */
  body_bytes: bytes(8 * MIB),
  /** Bytes of outputs that one answer loads; larger outputs go by NATS. */
  output_bytes: bytes(8 * MIB),
  /** Bytes of answers that their readers have not taken yet, of all and of one token. */
  answers_bytes: bytes(128 * MIB),
  answers_bytes_a_token: bytes(32 * MIB),
  /** Bodies read at a time, of all and of one token, and the bytes that they may have in all. */
  uploads: z.int().min(1).default(32),
  uploads_a_token: z.int().min(1).default(8),
  uploads_bytes: bytes(64 * MIB),
  /** A body that receives nothing for this long is abandoned. */
  stall_ms: z.int().min(10).default(10_000),
  /** Requests of one token: so many a second, and so many at once after a rest. */
  rate_per_second: z.number().positive().default(50),
  rate_burst: z.int().min(1).default(200),
  /** Passes of one agent whose returns are waited for. */
  awaited_an_agent: z.int().min(1).default(10_000),
  /** Open feeds of events, of all and of one token. */
  feeds: z.int().min(1).default(200),
  feeds_a_token: z.int().min(1).default(20),
  /** How often an open feed looks whether its token still stands. */
  recheck_ms: z.int().min(10).default(2_000),
  heartbeat_ms: z.int().min(10).default(15_000),
  /** A reader that takes nothing for so long is sent away; it goes on from where it was. */
  slow_ms: z.int().min(10).default(30_000),
  /** Longest wait that `Prefer: wait=` gets. */
  most_wait_ms: z.int().min(0).default(60_000),
  /** A connection that nobody used for so long is closed. */
  idle_ms: z
    .int()
    .min(100)
    .default(5 * MINUTE),
  /** Connections under the names of token owners. */
  identities: z.int().min(1).default(200),
})
export type GatewayOptions = z.infer<typeof gatewayOptions>
export type GatewaySettings = z.input<typeof gatewayOptions>
