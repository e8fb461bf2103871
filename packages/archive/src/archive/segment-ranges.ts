import type { SegmentRun } from '@passover/schemas'
import type { ManifestEntry } from './manifest.js'

/** Merges adjacent segments (oldest first) into runs. */
export function segmentRanges(entries: readonly ManifestEntry[]): SegmentRun[] {
  const runs: SegmentRun[] = []
  for (const { k, count, first_time, last_time, chain_before, chain_after } of entries) {
    const run = runs.at(-1)
    if (run?.to !== k - 1 || run.chain_after !== chain_before)
      runs.push({ from: k, to: k, entries: count, first_time, last_time, chain_before, chain_after })
    else {
      // An empty segment has no times. The server's clock may have been set back between two segments.
      if (run.entries === 0) Object.assign(run, { first_time, last_time })
      else if (count > 0) {
        run.first_time = Math.min(run.first_time, first_time)
        run.last_time = Math.max(run.last_time, last_time)
      }
      run.entries += count
      run.to = k
      run.chain_after = chain_after
    }
  }
  return runs
}
