import type { Clock } from '@passover/core'

/** Number of items between two checks of the time. */
const ITEMS_PER_CHECK = 32
/** Milliseconds of work before yielding. Under load, each yield takes much longer than this, so doing only a few items in between would stall. */
const MAX_SLICE_MS = 4

/** Runs low-priority work in slices, so that the reader of the stream is not delayed. */
export async function forEachCooperative<T>(
  items: Iterable<T>,
  clock: Pick<Clock, 'after' | 'monotonic'>,
  work: (item: T) => void,
): Promise<void> {
  let done = 0
  let since = clock.monotonic()
  for (const item of items) {
    work(item)
    if (++done % ITEMS_PER_CHECK > 0 || clock.monotonic() - since < MAX_SLICE_MS) continue
    await new Promise<void>((next) => clock.after(0, next))
    since = clock.monotonic()
  }
}
