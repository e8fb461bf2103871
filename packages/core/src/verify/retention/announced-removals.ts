import type { CustodyBody, SegmentRun } from '@passover/schemas'
import type { RemovedSegmentEntry } from './removal-checker.js'

type Said = Extract<CustodyBody, { kind: 'removals' | 'removed' }>

/** An event that announced a removal before it was carried out. */
export interface RemovalAnnouncement {
  sequence: number
  /** Stored time, server ms. */
  time: number
  /** Version of the policy that the removal follows, and the days of retention in that version. */
  policy: number
  days: number
  run: SegmentRun
}

/**
 * Removals as announced in the stream (decision 87). These events never leave the stream, their times are the server's, and the chain includes them.
 * After the event that starts announcements, a segment that is missing without an announcement was removed by someone else.
 */
export class AnnouncedRemovals {
  readonly #tellings: RemovalAnnouncement[] = []
  #since: Extract<Said, { kind: 'removals' }> | undefined

  take({ sequence, time }: { sequence: number; time: number }, said: Said): void {
    if (said.kind === 'removals') this.#since ??= said
    else for (const run of said.segments) this.#tellings.push({ sequence, time, run, policy: said.policy, days: said.retention_days })
  }

  /** True if removals are announced, as far as the stream was read. */
  get begun(): boolean {
    return this.#since !== undefined
  }

  /** Returns, for each of the removed segments, the last event that announces its removal. `removed` must be sorted, oldest first. */
  of(removed: readonly RemovedSegmentEntry[]): Map<number, RemovalAnnouncement> {
    const found = new Map<number, RemovalAnnouncement>()
    for (const telling of this.#tellings) for (const { k } of within(removed, telling.run)) found.set(k, telling)
    return found
  }

  /** Returns true if a segment had been removed before removals were announced. */
  wasBefore(segment: RemovedSegmentEntry): boolean {
    const run = this.#since?.untold.find(({ from, to }) => from <= segment.k && segment.k <= to)
    return run !== undefined && differs(segment, run) === undefined
  }

  /** Returns the first segment before `begins`, the start of the archive, that existed and has no announced removal. */
  missingBefore(begins: number): number | undefined {
    if (!this.#since) return undefined
    const known = [...this.#since.untold, ...this.#tellings.map(({ run }) => run)]
    let k = this.#since.begins
    for (let run: SegmentRun | undefined; k < begins; k = run.to + 1) {
      run = known.find(({ from, to }) => from <= k && k <= to)
      if (!run) return k
    }
    return undefined
  }
}

/** Returns how the entry of a removed segment differs from the announcement, or `undefined`. */
export function differs({ k, chain_before, chain_after, times }: RemovedSegmentEntry, run: SegmentRun): string | undefined {
  if (k === run.from && chain_before !== run.chain_before) return 'a different chain value before it'
  if (k === run.to && chain_after !== run.chain_after) return 'a different chain value after it'
  return times && (times.first < run.first_time || times.last > run.last_time) ? 'messages with different times' : undefined
}

/** Returns the removed segments that belong to a run. `removed` must be sorted, oldest first. */
export function within<Removed extends RemovedSegmentEntry>(removed: readonly Removed[], { from, to }: SegmentRun): readonly Removed[] {
  return removed.slice(placeOf(removed, from), placeOf(removed, to + 1))
}

/** Returns the index of the first segment that is not before k. */
function placeOf(removed: readonly RemovedSegmentEntry[], k: number): number {
  let [low, high] = [0, removed.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if ((removed[middle] as RemovedSegmentEntry).k < k) low = middle + 1
    else high = middle
  }
  return low
}
