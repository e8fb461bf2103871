import { z } from 'zod'
import { jsonRecord, list, text } from '../base/bounded-types.js'
import { passError } from '../base/errors.js'
import { agentName } from '../base/identifiers.js'
import { LIMITS } from '../base/limits.js'
import { passStatus } from '../pass/return-context.js'
import { ownLimits } from '../policy/agent-record.js'
import { custodyQuestions } from '../stream/custody.js'
import { deadLetterQuestions } from './dead-letters.js'
import { queryQuestions } from './query.js'

/** Questions on `ask.<name>` and their answers. */
export const question = z.discriminatedUnion('op', [
  /** `requests`: also whether the stream takes requests now. */
  z.object({ op: z.literal('time'), requests: z.literal(true).optional() }),
  z.object({
    op: z.literal('pass'),
    originator: agentName.optional(),
    subagent: agentName.optional(),
    id: text(64),
    history: z.boolean().optional(),
    /** Also what of it waits for a person now, as the inbox tells it. */
    due: z.boolean().optional(),
  }),
  z.object({
    op: z.literal('list'),
    originator: agentName.optional(),
    subagent: agentName.optional(),
    session_id: text(LIMITS.short).optional(),
    status: passStatus.optional(),
    limit: z.int().positive().max(1000).optional(),
  }),
  z.object({ op: z.literal('agents') }),
  /** Which of these returns the asker acknowledged. */
  z.object({ op: z.literal('acknowledged'), returns: list(z.int().positive(), 1000) }),
  /** What waits for a person; originators take turns on a page. An agent is told about its own passes only. */
  z.object({
    op: z.literal('inbox'),
    /** Only what was asked for, however far down, on behalf of this agent. */
    root_originator: agentName.optional(),
    /** Only what this person may decide. */
    approver: agentName.optional(),
    limit: z.int().positive().max(200).optional(),
    /** `next` of the answer before. */
    after: text(10_000).optional(),
  }),
  ...deadLetterQuestions,
  ...queryQuestions,
  ...custodyQuestions,
])
export type Question = z.infer<typeof question>

/** Body of a question on `register.<agent>` (the asker is the subject's token), and its answer. */
export const registerQuestion = z.object({
  description: text(LIMITS.line).optional(),
  skills: list(text(LIMITS.word), LIMITS.constraints).optional(),
  /** A JSON Schema (2020-12) of its output, and limits on itself: they become its registry's defaults. */
  output_schema: jsonRecord.optional(),
  limits: ownLimits.optional(),
  /** Asks only for the bucket of its large parts: for an agent that passes work over and does none. */
  parts_only: z.boolean().optional(),
  /** Asks that returns wait for it while it is away, and for nothing else. */
  durable_returns: z.boolean().optional(),
  /** Asks only whether that is so already, and changes nothing: that it is registered to work, or with `durable_returns` that returns wait. */
  known: z.boolean().optional(),
})
export const registerAnswer = z.discriminatedUnion('ok', [
  /** `parts`: how full the bucket of its large parts is, where it asked for that bucket. */
  z.object({ ok: z.literal(true), parts: z.object({ bytes: z.int().min(0), max_bytes: z.int().positive().optional() }).optional() }),
  z.object({ ok: z.literal(false), error: passError }),
])
export type RegisterQuestion = z.infer<typeof registerQuestion>
export type RegisterAnswer = z.infer<typeof registerAnswer>
