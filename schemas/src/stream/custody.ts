import { z } from 'zod'
import { filled } from '../base/bounded-types.js'
import { passError } from '../base/errors.js'
import { agentName, storedKey } from '../base/identifiers.js'
import { LIMITS } from '../base/limits.js'

/**
 * Custody of stored data (decision 87): bodies of `custody.<person>`, and of the audit service's events about them, `custody.passover`. Each is
 * stored before it takes effect.
 */

/** Same value as WIRE_VERSION, which cannot be imported: its file imports this one. */
const v = z.literal(1)
const sequence = z.int().positive()
const why = filled(LIMITS.line)
const session = filled(LIMITS.short)
const hash = z.string().regex(/^[0-9a-f]{64}$/)
const digest = z.custom<Uint8Array>((value) => value instanceof Uint8Array && value.length === 32)

/** Scope of a hold: data that must not be removed from stream or archive. */
export const custodyScope = z.union([z.strictObject({ session }), z.strictObject({ pass: storedKey.extend({ id: filled(64) }) })])
export type CustodyScope = z.infer<typeof custodyScope>

/** An erased entry: its sequence, its time (server ms), and the digest that replaces it. */
export const erasedFrame = z.tuple([sequence, z.number(), digest])
export type ErasedFrame = z.infer<typeof erasedFrame>

/** One pass in a tombstone. It identifies the pass only to someone who knows its id. */
export const erasedPass = z.object({
  /** SHA-256 of its id. */
  pass: hash,
  frames: z.array(erasedFrame).max(100_000),
  /** Large parts that it referred to: the agent that owns the bucket, and the name of the part in it. */
  parts: z.array(z.tuple([agentName, hash])).max(100_000),
})
export type ErasedPass = z.infer<typeof erasedPass>

/** A run of consecutive archive segments, summarized from their manifest entries. Times (server ms) are 0 if all of the segments were empty. */
export const segmentRun = z.object({
  from: z.int().min(0),
  to: z.int().min(0),
  entries: z.int().min(0),
  first_time: z.number(),
  last_time: z.number(),
  chain_before: hash,
  chain_after: hash,
})
export type SegmentRun = z.infer<typeof segmentRun>

/** Events of persons. `hold` in a release, and `erase` in the events that follow an erasure, are the sequences of those events. */
const said = [
  z.object({ v, kind: z.literal('hold'), scope: custodyScope, reason: why }),
  z.object({ v, kind: z.literal('release'), hold: sequence, reason: why.optional() }),
  /** `originator` is that of the root passes of the session. Absent if only one originator has a session of this name. */
  z.object({ v, kind: z.literal('erase'), session, originator: agentName.optional(), reason: why }),
] as const
/** Events of the audit service. */
const done = [
  z.object({ v, kind: z.literal('erased'), erase: sequence, passes: z.array(erasedPass).max(1_000) }),
  z.object({ v, kind: z.literal('refused'), erase: sequence, why }),
  z.object({ v, kind: z.literal('done'), erase: sequence, passes: z.int().min(0), entries: z.int().min(0), parts: z.int().min(0) }),
  /**
   * Stored once: from here on every removal is announced before it is carried out. `begins` is the first segment of the archive; `untold` lists
   * earlier removals.
   */
  z.object({ v, kind: z.literal('removals'), begins: z.int().min(0), untold: z.array(segmentRun).max(2_000) }),
  /** Announces segments that leave the archive, because they are older than this version of the policy keeps them. */
  z.object({
    v,
    kind: z.literal('removed'),
    segments: z.array(segmentRun).min(1).max(1_000),
    policy: z.int().min(0),
    retention_days: z.number().positive(),
  }),
] as const
export const custodyBody = z.discriminatedUnion('kind', [...said, ...done])
export type CustodyBody = z.infer<typeof custodyBody>

/** Current state of a hold, and of an erasure. */
export const custodyHold = z.object({
  hold: sequence,
  scope: custodyScope,
  reason: z.string(),
  by: z.string(),
  unverified: z.literal(true).optional(),
  time: z.number(),
})
export type CustodyHold = z.infer<typeof custodyHold>
export const custodyErasure = z.object({
  erase: sequence,
  session: z.string(),
  originator: agentName.optional(),
  reason: z.string(),
  by: z.string(),
  unverified: z.literal(true).optional(),
  time: z.number(),
  state: z.enum(['pending', 'done', 'refused']),
  why: z.string().optional(),
  passes: z.int(),
  entries: z.int(),
  parts: z.int(),
})
export type CustodyErasure = z.infer<typeof custodyErasure>

/** `custody` asks for holds and erasures; with a session, also for a preview of its erasure. */
export const custodyQuestions = [
  z.object({ op: z.literal('custody'), session: session.optional(), originator: agentName.optional() }),
] as const

const refusal = z.object({ ok: z.literal(false), error: passError })
export const custodyAnswer = z.union([
  z.object({
    ok: z.literal(true),
    holds: z.array(custodyHold),
    erasures: z.array(custodyErasure),
    /**
     * `originators` have a session of this name; if there are several and the question names none, all else is empty. `passes` have ended, `open`
     * have not. `segments` are rewritten. `entries` are erased, `parts` are the ones stored separately.
     */
    preview: z
      .object({
        originators: z.array(agentName).default([]),
        passes: z.int(),
        open: z.array(z.string()),
        held: z.array(sequence),
        segments: z.int(),
        entries: z.int(),
        parts: z.int(),
      })
      .optional(),
  }),
  refusal,
])
export type CustodyAnswer = z.infer<typeof custodyAnswer>
