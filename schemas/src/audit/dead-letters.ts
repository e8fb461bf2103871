import { z } from 'zod'
import { text } from '../base/bounded-types.js'
import { passError } from '../base/errors.js'
import { agentName, passId } from '../base/identifiers.js'
import { LIMITS } from '../base/limits.js'

/** Body of `event.….settled.<person>`: what became of a dead letter. The first one that counts is it. */
export const settledBody = z.object({
  v: z.literal(1),
  action: z.enum(['requeue', 'drop']),
  /** Of a requeue: the id of the pass that tries it again. */
  requeued_as: passId.optional(),
  reason: text(LIMITS.line).optional(),
})
export type SettledBody = z.infer<typeof settledBody>

/** What a person did about a dead letter, as answers and records tell it. Time by the server, ms. */
export const settlement = z.object({
  action: z.enum(['requeue', 'drop']),
  by: z.string(),
  time: z.number(),
  requeued_as: z.string().optional(),
  reason: z.string().optional(),
  unverified: z.literal(true).optional(),
})
export type Settlement = z.infer<typeof settlement>

/** `pending`: the server gave the delivery up, and no dispatcher has ended the pass yet. */
const LETTER_STATES = ['pending', 'open', 'requeued', 'dropped'] as const

/** One thing that died: work whose last attempt was lost, a request that nobody could process, a notice that nobody took. */
export const deadLetter = z.object({
  originator: z.string(),
  subagent: z.string(),
  /** Also `bad-<sequence>`, of a malformed request. */
  id: z.string(),
  what: z.enum(['work', 'request', 'notice']),
  state: z.enum(LETTER_STATES),
  /** Of the event that tells of it, or of the server's advisory; server ms. */
  sequence: z.int(),
  time: z.number(),
  /** Of the message that died. */
  dead_sequence: z.int(),
  code: z.string(),
  message: z.string(),
  attempts: z.int().optional(),
  deliveries: z.int().optional(),
  /** How many bytes of it are kept. */
  bytes: z.int().optional(),
  truncated: z.boolean().optional(),
  settlement: settlement.optional(),
  /** Sequence of the last settling event, counting or not: the next one expects it. */
  settled_sequence: z.int(),
})
export type DeadLetter = z.infer<typeof deadLetter>

/** A stored message that travels in an answer. */
const storedMessage = z.object({
  sequence: z.int(),
  content_type: z.string().optional(),
  data: z.custom<Uint8Array>((value) => value instanceof Uint8Array),
})

export const deadLetterDetail = z.object({
  letter: deadLetter,
  error: passError,
  /** The offending bytes, at most 64 KiB of them. */
  data: z.custom<Uint8Array>((value) => value instanceof Uint8Array).optional(),
  /** The request that a requeue repeats, wherever it is kept. */
  request: storedMessage.optional(),
})
export type DeadLetterDetail = z.infer<typeof deadLetterDetail>

const refusal = z.object({ ok: z.literal(false), error: passError })

/**
 * To `{ op: 'dead_letters' }`: newest first; `next` goes on where the limit cut it off, and `rest` counts what comes then. `forgotten`: older ones are not
 * remembered, and each is found by its pass only.
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

/** To `{ op: 'dead_letter' }`: one for each pass with that id; none is E041. */
export const deadLetterAnswer = z.union([z.object({ ok: z.literal(true), letters: z.array(deadLetterDetail) }), refusal])
export type DeadLetterAnswer = z.infer<typeof deadLetterAnswer>

/** What is asked about dead letters; an agent is told about those of its own passes. */
export const deadLetterQuestions = [
  z.object({
    op: z.literal('dead_letters'),
    originator: agentName.optional(),
    subagent: agentName.optional(),
    state: z.enum(LETTER_STATES).optional(),
    limit: z.int().positive().max(1000).optional(),
    /** `next` of the answer before. */
    before: z.int().positive().optional(),
  }),
  z.object({ op: z.literal('dead_letter'), originator: agentName.optional(), subagent: agentName.optional(), id: text(64) }),
] as const
