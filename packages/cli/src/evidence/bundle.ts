import type { ArchivedEvent, ManifestEntry } from '@passover/archive'
import type { Subjects } from '@passover/bus'
import { type PassKey, passKey, storedId } from '@passover/schemas'
import { z } from 'zod'
import { oneLine } from '../text.js'

/** What is told of one pass, as it was stored. */
export interface Evidence {
  pass: PassKey
  /** Its messages, those of the passes above it, the versions of the policy that they were decided by, the records of their agents. In order. */
  entries: ArchivedEvent[]
  /** For each archived segment that holds some of them, the digests of all its entries: with them its chain value can be computed. */
  segments: { entry: ManifestEntry; digests: Uint8Array }[]
  /** Newest value of the chain as it was collected. */
  head: { sequence: number; hash: string } | undefined
  /** What the audit made of it: for reading, no evidence of its own. */
  record: unknown
  /** The bytes of parts that entries only name, by their hash. What was gone, or too much, is not here. */
  parts: ReadonlyMap<string, Uint8Array>
  /** Messages that exist and are not here, since there were too many; a line each. */
  left_out: readonly string[]
  id_window_ms: number
  subjects: Subjects
}

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

/** Says to people what is missing in evidence. */
export function leftOutText(what: string): string {
  return `! Left out, as there is too much of it: ${oneLine(what, 300)}`
}

export function toBundled({ sequence, time, subject, headers, data }: ArchivedEvent): EvidenceBundle['entries'][number] {
  return { sequence, time, subject, headers, data: Buffer.from(data).toString('base64') }
}

export function fromBundled({ sequence, time, subject, headers, data }: EvidenceBundle['entries'][number]): ArchivedEvent {
  return { sequence, time, subject, headers, data: Buffer.from(data, 'base64') }
}
