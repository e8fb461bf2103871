import { z } from 'zod'
import { filled, text, time } from '../base/bounded-types.js'
import { canonicalJson, sha256 } from '../base/canonical-json.js'
import { agentName } from '../base/identifiers.js'
import { LIMITS } from '../base/limits.js'
import { type PassOverPreferences, passOverPreferences } from '../policy/policy.js'
import { WIRE_VERSION } from './wire.js'

/**
 * The live policy. Each version is first an event `policy.<person>`, then a value in the bucket `policy` under `version.<n>` and, while it is in
 * force, under `current`. Version 0 means the system's defaults, which are not stored.
 */

const version = z.int().positive()
/** SHA-256 (hex) of the RFC 8785 form of the document. */
const digest = filled(LIMITS.word)
const reason = text(LIMITS.line).optional()

/** Body of `policy.<person>`. It counts if its digest matches its document and its version is the next after those that count. */
export const policyBody = z.object({
  v: z.literal(WIRE_VERSION),
  version,
  /** The version that the author's change is based on. */
  base: z.int().min(0),
  document: passOverPreferences,
  digest,
  reason,
  at: time.optional(),
})
export type PolicyBody = z.infer<typeof policyBody>

/** A version as stored in the bucket. */
export const policyVersion = z.object({
  version,
  digest,
  document: passOverPreferences,
  /** The publisher, the stored time (server ms), and the sequence in the stream. */
  by: agentName,
  time,
  sequence: z.int().positive(),
  reason,
})
export type PolicyVersion = z.infer<typeof policyVersion>

/** Returns the digest of a parsed document, independent of the order of its keys. `$schema` is only for editors and is left out. */
export function policyDigest({ $schema: _, ...document }: PassOverPreferences): string {
  return sha256(canonicalJson(document))
}
