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

/** Questions on `ask.<name>`. */
export const question = z.discriminatedUnion('op', [
  /** With `requests`, asks also if the stream accepts requests now. */
  z.object({ op: z.literal('time'), requests: z.literal(true).optional() }),
  z.object({
    op: z.literal('pass'),
    originator: agentName.optional(),
    subagent: agentName.optional(),
    id: text(64),
    history: z.boolean().optional(),
    /** With `due`, asks also for its item that waits for a person, as in the inbox. */
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
  /** Asks which of these returns the asker acknowledged. */
  z.object({ op: z.literal('acknowledged'), returns: list(z.int().positive(), 1000) }),
  /** Asks for items that wait for a person; originators take turns on a page. An agent gets those of its own passes only. */
  z.object({
    op: z.literal('inbox'),
    /** Only items below root passes of this agent, at any depth. */
    root_originator: agentName.optional(),
    /** Only items that this person may decide. */
    approver: agentName.optional(),
    limit: z.int().positive().max(200).optional(),
    /** `next` of the previous answer. */
    after: text(10_000).optional(),
  }),
  ...deadLetterQuestions,
  ...queryQuestions,
  ...custodyQuestions,
])
export type Question = z.infer<typeof question>

/** Body of a question on `register.<agent>` (the asker is that token of the subject), and its answer. */
export const registerQuestion = z.object({
  description: text(LIMITS.line).optional(),
  skills: list(text(LIMITS.word), LIMITS.constraints).optional(),
  /** JSON Schema (2020-12) of the agent's output, and limits on itself: they become its defaults in the registry. */
  output_schema: jsonRecord.optional(),
  limits: ownLimits.optional(),
  /** True to request only the bucket for large parts: for an agent that requests passes and receives none. */
  parts_only: z.boolean().optional(),
  /** True to request only that returns are kept for the agent while it is not connected. */
  durable_returns: z.boolean().optional(),
  /**
   * True to ask without a change: if the agent is registered as a subagent or, with `durable_returns`, if returns are kept for it.
   */
  known: z.boolean().optional(),
})
export const registerAnswer = z.discriminatedUnion('ok', [
  /** `parts`: use of the bucket for large parts, if the agent asked for that bucket. */
  z.object({ ok: z.literal(true), parts: z.object({ bytes: z.int().min(0), max_bytes: z.int().positive().optional() }).optional() }),
  z.object({ ok: z.literal(false), error: passError }),
])
export type RegisterQuestion = z.infer<typeof registerQuestion>
export type RegisterAnswer = z.infer<typeof registerAnswer>
