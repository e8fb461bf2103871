import { z } from 'zod'
import { list, time } from '../base/bounded-types.js'
import { passError } from '../base/errors.js'
import { WIRE_VERSION } from './wire.js'

/** Returns in one message: what a process delivers within a second, with room. */
export const MAX_ACKNOWLEDGED = 65_536

/**
 * Body of `acknowledged.<originator>`: the stream sequences of returns that a process of it handed to their callers, ascending. The
 * first stands as it is, of each further one how much greater it is than the one before: small numbers are short.
 */
export const acknowledgedBody = z.object({ v: z.literal(WIRE_VERSION), returns: list(z.int().positive(), MAX_ACKNOWLEDGED) })
export type AcknowledgedBody = z.infer<typeof acknowledgedBody>

/**
 * How far a pass is for who sent it: the stream has its request; it was admitted, and is in the subagent's queue; its terminal return is
 * stored, and was sent to whoever waits for it; its originator said that its caller has it. `undelivered`: it did not in time (E022).
 */
export const SEND_STATUSES = ['stored', 'dispatched', 'delivered', 'acknowledged', 'undelivered'] as const
export type SendStatus = (typeof SEND_STATUSES)[number]

/** Body of `event.….undelivered.passover`: the return at that sequence was not acknowledged until then (E022). */
export const undeliveredBody = z.object({ v: z.literal(WIRE_VERSION), sequence: z.int().positive(), deadline: time })
export type UndeliveredBody = z.infer<typeof undeliveredBody>

/** To `{ op: 'acknowledged' }`: those of the named sequences that the asker acknowledged. */
export const acknowledgedAnswer = z.union([
  z.object({ ok: z.literal(true), returns: z.array(z.int()) }),
  z.object({ ok: z.literal(false), error: passError }),
])
export type AcknowledgedAnswer = z.infer<typeof acknowledgedAnswer>
