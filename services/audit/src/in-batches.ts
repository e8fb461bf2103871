/** Does something with each, `size` of them at a time; the results in order. The first that fails ends it. */
export async function inBatches<T, R>(items: readonly T[], each: (item: T) => Promise<R>, size: number): Promise<R[]> {
  const results: R[] = []
  for (let at = 0; at < items.length; at += size) results.push(...(await Promise.all(items.slice(at, at + size).map(each))))
  return results
}
