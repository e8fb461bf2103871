import type { ArchivedEvent } from '@passover/archive'
import { passKey, storedId } from '@passover/schemas'
import { z } from 'zod'

const hex = z.string().regex(/^[0-9a-f]{64}$/)
/** In the one form that stands for its bytes: unused bits would let a changed file pass for unchanged. */
const base64 = z.string().refine((text) => Buffer.from(text, 'base64').toString('base64') === text, 'is no base64')

/** Strict, as all of it: what is not signed must not stand beside what is. */
const bundledEntry = z.strictObject({
  sequence: z.int().positive(),
  time: z.number(),
  subject: z.string(),
  headers: z.string(),
  /** The stored bytes. */
  data: base64,
})

/** What is signed: a digest of everything else in the bundle. */
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
  /** Hashes of the parts that come with it; absent in a bundle of before. */
  parts: z.array(hex).optional(),
  /** What exists and is not in the bundle; absent: nothing. */
  left_out: z.array(z.string().max(1_000)).optional(),
  public_key: z.string(),
})
export type Seal = z.infer<typeof seal>

export const evidenceBundle = z.strictObject({
  seal,
  /** Ed25519 over the RFC 8785 form of the seal, base64. */
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
