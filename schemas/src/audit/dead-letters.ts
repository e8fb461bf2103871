import { z } from 'zod'
import { text } from '../base/bounded-types.js'
import { passError } from '../base/errors.js'
import { agentName, passId } from '../base/identifiers.js'
import { LIMITS } from '../base/limits.js'

/** Body of `event.….settled.<person>`: the resolution of a dead letter. The first one that counts is final. */
export const settledBody = z.object({
  v: z.literal(1),
  action: z.enum(['requeue', 'drop']),
  /** For a requeue: the id of the pass that retries it. */
  requeued_as: passId.optional(),
  reason: text(LIMITS.line).optional(),
})
export type SettledBody = z.infer<typeof settledBody>

/** A person's resolution of a dead letter, as in answers and records. Times are server ms. */
export const settlement = z.object({
  action: z.enum(['requeue', 'drop']),
  by: z.string(),
  time: z.number(),
  requeued_as: z.string().optional(),
  reason: z.string().optional(),
  unverified: z.literal(true).optional(),
})
export type Settlement = z.infer<typeof settlement>

/** `pending`: the server stopped delivering, and no dispatcher has ended the pass yet. */
const LETTER_STATES = ['pending', 'open', 'requeued', 'dropped'] as const

/** A dead letter: work whose last attempt was lost, a request that could not be processed, or a notification that was not accepted. */
export const deadLetter = z.object({
  originator: z.string(),
  subagent: z.string(),
  /** May be `bad-<sequence>`, for a malformed request. */
  id: z.string(),
  what: z.enum(['work', 'request', 'notice']),
  state: z.enum(LETTER_STATES),
  /** Sequence and time (server ms) of the event that reports it, or of the server's advisory. */
  sequence: z.int(),
  time: z.number(),
  /** Sequence of the dead message. */
  dead_sequence: z.int(),
  code: z.string(),
  message: z.string(),
  attempts: z.int().optional(),
  deliveries: z.int().optional(),
  /** Number of its bytes that are kept. */
  bytes: z.int().optional(),
  truncated: z.boolean().optional(),
  settlement: settlement.optional(),
  /** Sequence of the last settled event, valid or not. It is the guard of the next settled event. */
  settled_sequence: z.int(),
})
export type DeadLetter = z.infer<typeof deadLetter>

/** A stored message in an answer. */
const storedMessage = z.object({
  sequence: z.int(),
  content_type: z.string().optional(),
  data: z.custom<Uint8Array>((value) => value instanceof Uint8Array),
})

export const deadLetterDetail = z.object({
  letter: deadLetter,
  error: passError,
  /** The offending bytes, up to 64 KiB. */
  data: z.custom<Uint8Array>((value) => value instanceof Uint8Array).optional(),
  /** The request that a requeue repeats, from wherever it is stored. */
  request: storedMessage.optional(),
})
export type DeadLetterDetail = z.infer<typeof deadLetterDetail>

const refusal = z.object({ ok: z.literal(false), error: passError })

/**
 * Answer to `{ op: 'dead_letters' }`, newest first. `next` continues after the limit, and `rest` counts the remaining ones. `forgotten`: older
 * dead letters are no longer indexed and can be found only by their pass.
 */
export const deadLettersAnswer = z.union([
  z.object({
    ok: z.literal(true),
    letters: z.array(deadLetter),
    more: z.boolean(),
    next: z.int().optional(),
    rest: z.array(z.object({ originator: z.string(), letters: z.int() })).optional(),
    forgotten: z.literal(true).optional(),
  }),
  refusal,
])
export type DeadLettersAnswer = z.infer<typeof deadLettersAnswer>

/** Answer to `{ op: 'dead_letter' }`: one entry for each pass with that id; E041 if there is none. */
export const deadLetterAnswer = z.union([z.object({ ok: z.literal(true), letters: z.array(deadLetterDetail) }), refusal])
export type DeadLetterAnswer = z.infer<typeof deadLetterAnswer>

/** Questions about dead letters. An agent gets those of its own passes only. */
export const deadLetterQuestions = [
  z.object({
    op: z.literal('dead_letters'),
    originator: agentName.optional(),
    subagent: agentName.optional(),
    state: z.enum(LETTER_STATES).optional(),
    limit: z.int().positive().max(1000).optional(),
    /** `next` of the previous answer. */
    before: z.int().positive().optional(),
  }),
  z.object({ op: z.literal('dead_letter'), originator: agentName.optional(), subagent: agentName.optional(), id: text(64) }),
] as const
