import { z } from 'zod'
import { list, time } from '../base/bounded-types.js'
import { passError } from '../base/errors.js'
import { WIRE_VERSION } from './wire.js'

/** Maximum number of returns in one message: more than a process delivers within a second. */
export const MAX_ACKNOWLEDGED = 65_536

/**
 * Body of `acknowledged.<originator>`: the stream sequences of returns that a process of the originator delivered to its callers, ascending.
 * Delta-encoded to keep the numbers short: the first is absolute, each further one is the difference to its predecessor.
 */
export const acknowledgedBody = z.object({ v: z.literal(WIRE_VERSION), returns: list(z.int().positive(), MAX_ACKNOWLEDGED) })
export type AcknowledgedBody = z.infer<typeof acknowledgedBody>

/**
 * Delivery status of a pass for its originator. `stored`: the stream has the request. `dispatched`: it was admitted and is in the subagent's queue.
 * `delivered`: its return is stored and was sent to the waiting originator. `acknowledged`: the originator reported that its caller has the return.
 * `undelivered`: it did not report that in time (E022).
 */
export const SEND_STATUSES = ['stored', 'dispatched', 'delivered', 'acknowledged', 'undelivered'] as const
export type SendStatus = (typeof SEND_STATUSES)[number]

/** Body of `event.….undelivered.passover`: the return at that sequence was not acknowledged by the deadline (E022). */
export const undeliveredBody = z.object({ v: z.literal(WIRE_VERSION), sequence: z.int().positive(), deadline: time })
export type UndeliveredBody = z.infer<typeof undeliveredBody>

/** Answer to `{ op: 'acknowledged' }`: the named sequences that the asker acknowledged. */
export const acknowledgedAnswer = z.union([
  z.object({ ok: z.literal(true), returns: z.array(z.int()) }),
  z.object({ ok: z.literal(false), error: passError }),
])
export type AcknowledgedAnswer = z.infer<typeof acknowledgedAnswer>
