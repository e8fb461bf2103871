import type { Clock } from '@passover/core'

/** So many at once take a few ms. */
const AT_ONCE = 128

/** Does work of no hurry piece by piece: what the reader of the stream is given meanwhile comes first. */
export async function inTurns<T>(items: Iterable<T>, clock: Pick<Clock, 'after'>, work: (item: T) => void): Promise<void> {
  let done = 0
  for (const item of items) {
    work(item)
    if (++done % AT_ONCE === 0) await new Promise<void>((next) => clock.after(0, next))
  }
}
