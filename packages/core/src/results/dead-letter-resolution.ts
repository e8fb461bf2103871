import { type EventFact, type Settlement, SYSTEM, settledBody } from '@passover/schemas'

/** An event with its decoded body, `undefined` if it cannot be decoded. */
type ResolutionEvent = Pick<EventFact, 'kind' | 'sender' | 'sequence' | 'time'> & { body?: unknown }

/**
 * Returns how a pass's dead letter was resolved: the first valid `settled` event of a person, as decided by `byPerson`. Publishers name the previous
 * message as a condition, so that only one of two people can be first; later events change nothing.
 */
export function deadLetterResolution(
  events: readonly ResolutionEvent[],
  byPerson: (event: ResolutionEvent) => boolean,
): Settlement | undefined {
  for (const event of events) {
    if (event.kind !== 'settled' || event.sender === SYSTEM || !byPerson(event)) continue
    const { data } = settledBody.safeParse(event.body)
    if (!data || (data.action === 'requeue') !== (data.requeued_as !== undefined)) continue
    const { action, requeued_as, reason } = data
    return {
      action,
      by: event.sender,
      time: event.time,
      ...(requeued_as === undefined ? {} : { requeued_as }),
      ...(reason === undefined ? {} : { reason }),
    }
  }
  return undefined
}
