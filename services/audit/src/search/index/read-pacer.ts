import type { Clock } from '@passover/core'

/** Number of records read between two checks of the time. */
const READS_PER_CHECK = 128
/** Milliseconds of reading before a pause, because the reader of the stream has priority. */
const MAX_SLICE_MS = 4

/** Creates a function to call after each record read from the bucket. It returns a promise if reading has to pause, for as long as it worked. */
export function createReadPacer({ monotonic, after }: Pick<Clock, 'monotonic' | 'after'>): () => Promise<void> | undefined {
  let since = monotonic()
  let read = 0
  return () => {
    if (++read % READS_PER_CHECK !== 0) return undefined
    const spent = monotonic() - since
    if (spent < MAX_SLICE_MS) return undefined
    return new Promise<void>((done) => {
      after(spent, () => {
        since = monotonic()
        done()
      })
    })
  }
}
