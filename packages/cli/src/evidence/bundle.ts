import type { ArchivedEvent } from '@passover/archive'
import { passKey, storedId } from '@passover/schemas'
import { z } from 'zod'

const hex = z.string().regex(/^[0-9a-f]{64}$/)
/** Base64 in its canonical form only: otherwise unused bits could differ and a changed file would pass as unchanged. */
const base64 = z.string().refine((text) => Buffer.from(text, 'base64').toString('base64') === text, 'is not base64')

/** Strict, like all schemas of the bundle: unsigned fields must not appear next to signed ones. */
const bundledEntry = z.strictObject({
  sequence: z.int().positive(),
  time: z.number(),
  subject: z.string(),
  headers: z.string(),
  /** Stored bytes of the message, base64. */
  data: base64,
})

/** The signed part: digests of everything else in the bundle. */
const seal = z.strictObject({
  format: z.literal('passover-evidence'),
  v: z.literal(1),
  made_at: z.number(),
  made_by: z.string(),
  pass: z.strictObject({ ...passKey.shape, id: storedId }),
  id_window_ms: z.int().positive(),
  prefix: z.string(),
  entries: z.array(z.strictObject({ sequence: z.int().positive(), digest: hex })),
  segments: z.array(z.strictObject({ k: z.int().min(0), chain_before: hex, chain_after: hex, digests: hex })),
  head: z.strictObject({ sequence: z.int(), hash: hex }).optional(),
  record: hex,
  /** Hashes of the parts in the bundle; absent in bundles of earlier versions. */
  parts: z.array(hex).optional(),
  /** Descriptions of what exists but is not in the bundle; absent if nothing was left out. */
  left_out: z.array(z.string().max(1_000)).optional(),
  public_key: z.string(),
})
export type Seal = z.infer<typeof seal>

export const evidenceBundle = z.strictObject({
  seal,
  /** Ed25519 signature of the seal in RFC 8785 form, base64. */
  signature: base64,
  entries: z.array(bundledEntry),
  segments: z.array(z.strictObject({ k: z.int().min(0), digests: base64 })),
  record: z.unknown(),
  parts: z.array(z.strictObject({ hash: hex, data: base64 })).optional(),
})
export type EvidenceBundle = z.infer<typeof evidenceBundle>

export function bundleEntry({ sequence, time, subject, headers, data }: ArchivedEvent): EvidenceBundle['entries'][number] {
  return { sequence, time, subject, headers, data: Buffer.from(data).toString('base64') }
}

export function unbundleEntry({ sequence, time, subject, headers, data }: EvidenceBundle['entries'][number]): ArchivedEvent {
  return { sequence, time, subject, headers, data: Buffer.from(data, 'base64') }
}
