import { z } from 'zod'
import { filled } from '../base/bounded-types.js'
import { passError } from '../base/errors.js'
import { agentName, passKey } from '../base/identifiers.js'
import { LIMITS } from '../base/limits.js'

/**
 * Custody of what is stored (decision 87): bodies of `custody.<person>`, and of what the audit did about them, `custody.passover`. Each is
 * stored before anything follows from it.
 */
/** WIRE_VERSION, whose file needs this one. */
const v = z.literal(1)
const sequence = z.int().positive()
const why = filled(LIMITS.line)
const session = filled(LIMITS.short)
const hash = z.string().regex(/^[0-9a-f]{64}$/)
const digest = z.custom<Uint8Array>((value) => value instanceof Uint8Array && value.length === 32)

/** Of what nothing may leave stream or archive. */
export const custodyScope = z.union([z.strictObject({ session }), z.strictObject({ pass: passKey.extend({ id: filled(64) }) })])
export type CustodyScope = z.infer<typeof custodyScope>

/** An entry that was erased: its sequence, its time (server ms), and the digest that stays in its place. */
export const erasedFrame = z.tuple([sequence, z.number(), digest])
export type ErasedFrame = z.infer<typeof erasedFrame>

/** One pass in a tombstone; nothing of it tells which it was but to who knows its id. */
export const erasedPass = z.object({
  /** SHA-256 of its id. */
  pass: hash,
  frames: z.array(erasedFrame).max(100_000),
  /** Large parts that it referred to: the agent whose bucket they lie in, and their name there. */
  parts: z.array(z.tuple([agentName, hash])).max(100_000),
})
export type ErasedPass = z.infer<typeof erasedPass>

/**
 * Segments of the archive that are neighbours, as their manifest entries tell them together; times (server ms) are 0 where all of them were
 * empty.
 */
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

/** Said by a person. `hold` of a release and `erase` of what follows an erasure are the sequences of those events. */
const said = [
  z.object({ v, kind: z.literal('hold'), scope: custodyScope, reason: why }),
  z.object({ v, kind: z.literal('release'), hold: sequence, reason: why.optional() }),
  /** `originator`: of the root passes, whose session it is; absent: the only one that has a session of this name. */
  z.object({ v, kind: z.literal('erase'), session, originator: agentName.optional(), reason: why }),
] as const
/** Said by the audit. */
const done = [
  z.object({ v, kind: z.literal('erased'), erase: sequence, passes: z.array(erasedPass).max(1_000) }),
  z.object({ v, kind: z.literal('refused'), erase: sequence, why }),
  z.object({ v, kind: z.literal('done'), erase: sequence, passes: z.int().min(0), entries: z.int().min(0), parts: z.int().min(0) }),
  /** Said once: from here on each removal is told before it is done. `begins`: the first segment of the archive; `untold`: what was removed before. */
  z.object({ v, kind: z.literal('removals'), begins: z.int().min(0), untold: z.array(segmentRun).max(2_000) }),
  /** Segments leave the archive, as they are older than this version of the policy keeps. */
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

/** What stands of a hold, and of an erasure. */
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

/** `custody`: what is held, and what was erased; and with a session, what its erasure would do. */
export const custodyQuestions = [
  z.object({ op: z.literal('custody'), session: session.optional(), originator: agentName.optional() }),
] as const

const refusal = z.object({ ok: z.literal(false), error: passError })
export const custodyAnswer = z.union([
  z.object({
    ok: z.literal(true),
    holds: z.array(custodyHold),
    erasures: z.array(custodyErasure),
    /** Who has a session of this name: where there are several and none was named, the rest is nothing. Passes that have an end, and those that have none; segments that are written anew, entries, and parts that lie apart. */
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
