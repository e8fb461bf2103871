import { z } from 'zod'
import { filled, text, time } from '../base/bounded-types.js'
import { canonicalJson, sha256 } from '../base/canonical-json.js'
import { agentName } from '../base/identifiers.js'
import { LIMITS } from '../base/limits.js'
import { type PassOverPreferences, passOverPreferences } from '../policy/policy.js'
import { WIRE_VERSION } from './wire.js'

/**
 * The live policy: each version is an event `policy.<person>` first, then stands in the bucket `policy` under
 * `version.<n>` and, while it is in force, under `current`. Version 0 is the system's defaults, which stand nowhere.
 */

const version = z.int().positive()
/** SHA-256 (hex) of the RFC 8785 form of the document. */
const digest = filled(LIMITS.word)
const reason = text(LIMITS.line).optional()

/** Body of `policy.<person>`. It counts if its digest is that of its document and it is the next one after those that count. */
export const policyBody = z.object({
  v: z.literal(WIRE_VERSION),
  version,
  /** The version that its author changed. */
  base: z.int().min(0),
  document: passOverPreferences,
  digest,
  reason,
  at: time.optional(),
})
export type PolicyBody = z.infer<typeof policyBody>

/** A version as the bucket has it. */
export const policyVersion = z.object({
  version,
  digest,
  document: passOverPreferences,
  /** Who published it, and when the stream stored it (server ms) under which sequence. */
  by: agentName,
  time,
  sequence: z.int().positive(),
  reason,
})
export type PolicyVersion = z.infer<typeof policyVersion>

/** What names a parsed document's content: the same whatever the order of its keys. `$schema` is for editors and left out. */
export function policyDigest({ $schema: _, ...document }: PassOverPreferences): string {
  return sha256(canonicalJson(document))
}
