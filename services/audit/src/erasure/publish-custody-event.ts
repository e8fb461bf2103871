import { type Bus, CONTENT_TYPE, encode } from '@passover/bus'
import { type CustodyBody, HEADER, SYSTEM, WIRE_VERSION } from '@passover/schemas'
import type { CustodyWatcher } from '../watchers/custody-watcher.js'

type WithoutVersion<T> = T extends unknown ? Omit<T, 'v'> : never

/** What the audit says about custody; the rest people say. */
export type SystemCustodyEvent = WithoutVersion<Extract<CustodyBody, { kind: 'removals' | 'removed' | 'erased' | 'refused' | 'done' }>>

/**
 * Says something about custody in the stream; gives its sequence. Undefined: something was said after `position`, and it is to be looked at again.
 * Throws `failure` where it is not known whether it was stored.
 */
export async function publishCustodyEvent(
  { bus, watch }: { bus: Pick<Bus, 'publish' | 'subjects'>; watch: Pick<CustodyWatcher, 'current'> },
  said: SystemCustodyEvent,
  { position, failure }: { position: number; failure: string },
): Promise<number | undefined> {
  const { subjects } = bus
  const outcome = await bus.publish({
    subject: subjects.custody(SYSTEM),
    headers: { [HEADER.contentType]: CONTENT_TYPE.msgpack },
    data: encode({ v: WIRE_VERSION, ...said }),
    guard: { subject: subjects.all('custody'), sequence: position },
  })
  if (outcome.kind === 'lost') return undefined
  if (outcome.kind !== 'stored') throw new Error(`${failure}: ${outcome.kind}`)
  await watch.current()
  return outcome.sequence
}
