import type { Fact } from '@passover/schemas'
import { LeaderCopy } from '../consumers/leader-copy.js'
import { OrderedConsumer } from '../consumers/ordered-consumer.js'
import type { BusContext } from '../messaging/bus-context.js'
import { BusReadError } from '../types/errors.js'
import type { FollowOptions } from '../types/subscriptions.js'
import { isBare, needsBody } from '../wire/message-origin.js'
import type { StoredMessage } from '../wire/messages.js'
import { JournalReader } from './journal-reader.js'

/** Reads the main stream. Passes on each message with the facts from its subject and headers. */
export function followStream(
  { link, api, subjects }: BusContext,
  { filters, from, headers_only, in_gulps, onRollback }: FollowOptions,
  onMessage: (stored: StoredMessage, fact: Fact) => void | Promise<void>,
): Promise<OrderedConsumer> {
  const { stream } = subjects
  const journals = new JournalReader(api, subjects)
  /** Reads the body of a message without headers: only its body shows who published it. */
  const whole = (stored: StoredMessage): void | Promise<void> => {
    if (!isBare(stored.headers) || !needsBody(subjects.parse(stored.subject).kind)) return onMessage(stored, subjects.toFact(stored))
    return journals.message(stored.sequence).then((read) => (read ? onMessage(read, subjects.toFact(read)) : undefined))
  }
  // A single server has no other replicas, so its readers need no comparison.
  const isClustered = link.nc.info?.cluster !== undefined
  const reader = new OrderedConsumer(
    { link, api },
    {
      stream,
      filters,
      start: from ?? 1,
      headers_only,
      in_gulps,
      ...(isClustered && { leader: new LeaderCopy(journals, filters) }),
      onMessage: headers_only ? whole : (stored) => onMessage(stored, subjects.toFact(stored)),
      onRollback: (last) => {
        link.report(new BusReadError(`stream ${stream} rolled back to ${last}`, 'refused_by_server'))
        onRollback?.(last)
      },
    },
  )
  return reader.open()
}
