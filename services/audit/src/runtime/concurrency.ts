/** Runs `each` for all items in batches of `size`, and returns the results in order. Rejects with the first error. */
export async function mapInBatches<T, R>(items: readonly T[], each: (item: T) => Promise<R>, size: number): Promise<R[]> {
  const results: R[] = []
  for (let at = 0; at < items.length; at += size) results.push(...(await Promise.all(items.slice(at, at + size).map(each))))
  return results
}

/** Runs `work` for each item, at most `width()` concurrently. After an error no further item is started; rejects when all running ones have ended. */
export async function forEachConcurrent<T>(items: readonly T[], width: () => number, work: (item: T) => Promise<void>): Promise<void> {
  let next = 0
  let running = 0
  let failed: { error: unknown } | undefined
  await new Promise<void>((ended) => {
    const run = async () => {
      running++
      try {
        await work(items[next++] as T)
      } catch (error) {
        failed ??= { error }
      }
      running--
      more()
    }
    const more = () => {
      while (next < items.length && !failed && running < width()) void run()
      if (running === 0) ended()
    }
    more()
  })
  if (failed) throw (failed as { error: unknown }).error
}
