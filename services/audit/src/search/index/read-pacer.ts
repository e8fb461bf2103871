import type { Clock } from '@passover/core'

/** Records read between two looks at the time, and how long at once: the reader of the stream comes first. */
const READ_AT_ONCE = 128
const MOST_AT_ONCE_MS = 4

/** Paces a reader of the bucket, called for each record: a promise when it has to wait for as long as it has worked. */
export function paced({ monotonic, after }: Pick<Clock, 'monotonic' | 'after'>): () => Promise<void> | undefined {
  let since = monotonic()
  let read = 0
  return () => {
    if (++read % READ_AT_ONCE !== 0) return undefined
    const spent = monotonic() - since
    if (spent < MOST_AT_ONCE_MS) return undefined
    return new Promise<void>((done) => {
      after(spent, () => {
        since = monotonic()
        done()
      })
    })
  }
}
