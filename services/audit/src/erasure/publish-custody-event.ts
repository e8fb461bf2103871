import { type Bus, CONTENT_TYPE, encode } from '@passover/bus'
import { type CustodyBody, HEADER, SYSTEM, WIRE_VERSION } from '@passover/schemas'
import type { CustodyWatcher } from '../watchers/custody-watcher.js'

type WithoutVersion<T> = T extends unknown ? Omit<T, 'v'> : never

/** Custody events that the audit publishes. People publish the others. */
export type SystemCustodyEvent = WithoutVersion<Extract<CustodyBody, { kind: 'removals' | 'removed' | 'erased' | 'refused' | 'done' }>>

/**
 * Publishes a custody event and returns its sequence. Returns `undefined` if another custody event was stored after `position`; the caller must then
 * check the state again. Throws `failure` if the event is not known to be stored.
 */
export async function publishCustodyEvent(
  { bus, watch }: { bus: Pick<Bus, 'publish' | 'subjects'>; watch: Pick<CustodyWatcher, 'current'> },
  event: SystemCustodyEvent,
  { position, failure }: { position: number; failure: string },
): Promise<number | undefined> {
  const { subjects } = bus
  const outcome = await bus.publish({
    subject: subjects.custody(SYSTEM),
    headers: { [HEADER.contentType]: CONTENT_TYPE.msgpack },
    data: encode({ v: WIRE_VERSION, ...event }),
    guard: { subject: subjects.all('custody'), sequence: position },
  })
  if (outcome.kind === 'lost') return undefined
  if (outcome.kind !== 'stored') throw new Error(`${failure}: ${outcome.kind}`)
  await watch.current()
  return outcome.sequence
}
