import { type Bus, CONTENT_TYPE, encode } from '@passover/bus'
import { type CustodyAnswer, type CustodyBody, custodyAnswer, HEADER, WIRE_VERSION } from '@passover/schemas'
import { Failure } from '../errors.js'
import { ask } from './ask.js'

type PersonCustodyBody = Extract<CustodyBody, { kind: 'hold' | 'release' | 'erase' }>
export type CustodyRequest = PersonCustodyBody extends infer One ? (One extends PersonCustodyBody ? Omit<One, 'v'> : never) : never

/** Returns legal holds and erasures. With a session, also the effect of erasing it. Throws Failure E013 if the person may not read them. */
export function askCustody(bus: Bus, about: { session?: string; originator?: string } = {}): Promise<Extract<CustodyAnswer, { ok: true }>> {
  return ask(bus, { op: 'custody', ...about }, custodyAnswer)
}

/**
 * Stores a custody event of a person (decision 87). Returns its stream sequence, which identifies the event. Throws Failure E013 if the person may not
 * store it, and E040 if it is unknown whether it is stored.
 */
export async function publishCustodyEvent(bus: Bus, request: CustodyRequest): Promise<number> {
  const outcome = await bus.publish({
    subject: bus.subjects.custody(bus.identity),
    headers: { [HEADER.contentType]: CONTENT_TYPE.msgpack },
    data: encode({ v: WIRE_VERSION, ...request }),
  })
  if (outcome.kind === 'stored') return outcome.sequence
  if (outcome.kind === 'refused' && outcome.reason === 'permission') {
    throw new Failure('E013', `${bus.identity} may not hold or erase: ${outcome.description}`, {
      hint: 'a custodian must do this with their own credentials (docs/reference/permissions.md)',
    })
  }
  const why = 'description' in outcome ? outcome.description : outcome.kind
  throw new Failure('E040', `it was probably not stored: ${why}`, { hint: 'to see the current holds: passover audit hold list' })
}
