import { type EventFact, type Settlement, SYSTEM, settledBody } from '@passover/schemas'

/** An event with its body as decoded, undefined where it cannot be. */
type ResolutionEvent = Pick<EventFact, 'kind' | 'sender' | 'sequence' | 'time'> & { body?: unknown }

/**
 * What became of a pass's dead letter: the first `settled` event that says something and that a person made, as far as `byPerson`
 * knows. Its publishers expect the one before, so that of two people one is first; whatever comes after it changes nothing.
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
