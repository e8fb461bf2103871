import type { Clock } from '@passover/core'

/** Between two looks at the time. */
const ITEMS_PER_CHECK = 32
/** Where this process has much to do, a turn that is waited for is much longer than this, and whoever takes few items a turn gets nothing done. */
const MAX_SLICE_MS = 4

/** Does work of no hurry piece by piece: what the reader of the stream is given meanwhile comes first. */
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
