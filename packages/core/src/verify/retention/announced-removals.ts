import type { CustodyBody, SegmentRun } from '@passover/schemas'
import type { RemovedSegmentEntry } from './check-removals.js'

type Said = Extract<CustodyBody, { kind: 'removals' | 'removed' }>

/** An event that told of a removal before it was done. */
export interface RemovalAnnouncement {
  sequence: number
  /** Server ms. */
  time: number
  /** The version of the policy that it followed, and how many days that keeps. */
  policy: number
  days: number
  run: SegmentRun
}

/**
 * What the stream tells of removals (decision 113). These events never leave it, their times are the server's, and the chain goes through them: from
 * the event on that says so, what is gone and was not told was taken.
 */
export class AnnouncedRemovals {
  private readonly tellings: RemovalAnnouncement[] = []
  private since: Extract<Said, { kind: 'removals' }> | undefined

  take({ sequence, time }: { sequence: number; time: number }, said: Said): void {
    if (said.kind === 'removals') this.since ??= said
    else for (const run of said.segments) this.tellings.push({ sequence, time, run, policy: said.policy, days: said.retention_days })
  }

  /** Whether removals are told at all, as far as what was read says. */
  get begun(): boolean {
    return this.since !== undefined
  }

  /** By segment: the last event that tells of it, of some removed ones, oldest first. */
  of(removed: readonly RemovedSegmentEntry[]): Map<number, RemovalAnnouncement> {
    const found = new Map<number, RemovalAnnouncement>()
    for (const telling of this.tellings) for (const { k } of within(removed, telling.run)) found.set(k, telling)
    return found
  }

  /** Whether a segment had been removed when removals began to be told. */
  wasBefore(segment: RemovedSegmentEntry): boolean {
    const run = this.since?.untold.find(({ from, to }) => from <= segment.k && segment.k <= to)
    return run !== undefined && differs(segment, run) === undefined
  }

  /** The first segment before `begins`, where the archive begins, that was there and of which nothing tells. */
  missingBefore(begins: number): number | undefined {
    if (!this.since) return undefined
    const known = [...this.since.untold, ...this.tellings.map(({ run }) => run)]
    let k = this.since.begins
    for (let run: SegmentRun | undefined; k < begins; k = run.to + 1) {
      run = known.find(({ from, to }) => from <= k && k <= to)
      if (!run) return k
    }
    return undefined
  }
}

/** What a removed segment's entry says otherwise than what was told. */
export function differs({ k, chain_before, chain_after, times }: RemovedSegmentEntry, run: SegmentRun): string | undefined {
  if (k === run.from && chain_before !== run.chain_before) return 'another value of the chain before it'
  if (k === run.to && chain_after !== run.chain_after) return 'another value of the chain after it'
  return times && (times.first < run.first_time || times.last > run.last_time) ? 'messages of other times' : undefined
}

/** Those of a run, of removed segments, oldest first. */
export function within<Removed extends RemovedSegmentEntry>(removed: readonly Removed[], { from, to }: SegmentRun): readonly Removed[] {
  return removed.slice(placeOf(removed, from), placeOf(removed, to + 1))
}

/** Where the first of them stands that is not before k. */
function placeOf(removed: readonly RemovedSegmentEntry[], k: number): number {
  let [low, high] = [0, removed.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if ((removed[middle] as RemovedSegmentEntry).k < k) low = middle + 1
    else high = middle
  }
  return low
}
