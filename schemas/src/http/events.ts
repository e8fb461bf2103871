import { z } from 'zod'
import { text } from '../base/bounded-types.js'
import { agentName } from '../base/identifiers.js'

export const eventsParameters = z.strictObject({
  /** Id of a pass, or a prefix of ids. */
  id: text(64).optional(),
  originating_agent: agentName.optional(),
  subagent: agentName.optional(),
  /** Sequence after which to begin; by default, the next stored message. Same as the header Last-Event-ID, which takes precedence. */
  after: z
    .preprocess((value) => (typeof value === 'string' && /^\d{1,16}$/.test(value) ? Number(value) : value), z.int().min(0))
    .optional(),
})
export type EventsParameters = z.infer<typeof eventsParameters>

/**
 * A stored message: `data` of an event `passover`, whose id is its sequence in the stream. An event `position` has no relevant data: its id tells how
 * far the feed has read, so that a reader can resume without gaps.
 */
export const feedEvent = z.object({
  sequence: z.int().positive(),
  /** Server ms. */
  time: z.number(),
  /** request, held, work, fence, return, decision, agent, policy, or an event's kind. */
  kind: z.string(),
  originator: z.string().optional(),
  subagent: z.string().optional(),
  id: z.string().optional(),
  by: z.string().optional(),
  /** Set if the installation does not check names: `by` is the name that a process claimed for a person. */
  unverified: z.literal(true).optional(),
  attempt: z.int().optional(),
  detail: z.string().optional(),
})
export type FeedEvent = z.infer<typeof feedEvent>
