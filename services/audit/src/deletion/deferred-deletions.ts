import { keyText } from '@passover/schemas'
import type { DeferredPass, DeferredSegment, DeletionState } from './deletion-state.js'

/** What stands in memory; of further segments only how many wait there, and they are read again by turns. */
const MAX_IN_MEMORY = 50_000
const MAX_READS_PER_RUN = 32
/** So many dead letters that nobody settles are kept: no more are remembered either. */
const MAX_DEAD_LETTERS = 20_000

interface SegmentCounts {
  passes: number
  /** Dead letters by originator. */
  letters: ReadonlyMap<string, number>
  advisories: number
  /** Undefined: it is in the bucket alone. */
  kept: DeferredSegment | undefined
}

/** What has to wait in segments that are done with otherwise, by segment: it stands in the bucket, and as much of it as there is room in memory. */
export class DeferredDeletions {
  private readonly segments = new Map<number, SegmentCounts>()
  private kept = 0
  /** The segment before which those that are not in memory are read next. */
  private turn = Number.POSITIVE_INFINITY

  constructor(
    private readonly state: Pick<DeletionState, 'deferred' | 'deferredIn' | 'defer'>,
    private readonly most = MAX_IN_MEMORY,
    private readonly most_letters = MAX_DEAD_LETTERS,
  ) {}

  /** Passes and advisories. */
  get size(): number {
    let size = 0
    for (const { passes, advisories } of this.segments.values()) size += passes + advisories
    return size
  }

  /** What another process left behind. */
  async load(): Promise<void> {
    this.segments.clear()
    this.kept = 0
    for await (const [k, waiting] of this.state.deferred()) this.note(k, waiting)
  }

  async put(k: number, waiting: DeferredSegment): Promise<void> {
    await this.state.defer(k, waiting)
    this.note(k, waiting)
  }

  /** Something younger of these passes was stored, and decides. Where it is not in memory it is found out when it is looked at. */
  async removePasses(texts: ReadonlySet<string>): Promise<void> {
    for (const [k, { kept }] of [...this.segments]) {
      const still = kept?.passes.filter(({ key }) => !texts.has(keyText(key)))
      if (kept && still && still.length < kept.passes.length) await this.put(k, { passes: still, advisories: kept.advisories })
    }
  }

  /**
   * Segments to be looked at again, newest first; of those that are not in memory a few by turns. `crowded`: dead letters that are too many. Originators
   * share the room for dead letters, and the newest of each stay: one that makes many takes no room from the others.
   */
  async *due(): AsyncGenerator<{ k: number; waiting: DeferredSegment; crowded: ReadonlySet<DeferredPass> }> {
    const share = this.shareOfLetters()
    const newer = new Map<string, number>()
    const read = this.turns()
    for (const [k, counted] of this.inOrder()) {
      const waiting = counted.kept ?? (read.has(k) ? await this.state.deferredIn(k) : undefined)
      if (waiting) yield { k, waiting, crowded: crowdedIn(waiting, { share, newer }) }
      addCounts(newer, counted.letters)
    }
  }

  /** Dead letters that each originator may keep. */
  private shareOfLetters(): number {
    const all = new Map<string, number>()
    for (const { letters } of this.segments.values()) addCounts(all, letters)
    return fairShare([...all.values()], this.most_letters)
  }

  private inOrder(): [number, SegmentCounts][] {
    return [...this.segments].sort(([a], [b]) => b - a)
  }

  private turns(): ReadonlySet<number> {
    const stored = this.inOrder().flatMap(([k, { kept }]) => (kept ? [] : [k]))
    const next = stored.filter((k) => k < this.turn).slice(0, MAX_READS_PER_RUN)
    // From the newest again.
    const turn = next.length > 0 ? next : stored.slice(0, MAX_READS_PER_RUN)
    this.turn = turn.at(-1) ?? Number.POSITIVE_INFINITY
    return new Set(turn)
  }

  private note(k: number, waiting: DeferredSegment): void {
    const { passes, advisories } = waiting
    this.kept -= sizeOf(this.segments.get(k)?.kept)
    this.segments.delete(k)
    const size = sizeOf(waiting)
    if (size === 0) return
    const isKept = this.kept + size <= this.most
    if (isKept) this.kept += size
    this.segments.set(k, {
      passes: passes.length,
      letters: countDeadLetters(passes),
      advisories: advisories.length,
      kept: isKept ? waiting : undefined,
    })
  }
}

function sizeOf(waiting: DeferredSegment | undefined): number {
  return waiting ? waiting.passes.length + waiting.advisories.length : 0
}

function countDeadLetters(passes: readonly DeferredPass[]): Map<string, number> {
  const letters = new Map<string, number>()
  for (const { key, why } of passes) if (why === 'dead_letter') letters.set(key.originator, (letters.get(key.originator) ?? 0) + 1)
  return letters
}

function addCounts(all: Map<string, number>, more: ReadonlyMap<string, number>): void {
  for (const [name, count] of more) all.set(name, (all.get(name) ?? 0) + count)
}

/** The dead letters beyond their originator's share, where it has `newer` ones in later segments. */
function crowdedIn(
  { passes }: DeferredSegment,
  { share, newer }: { share: number; newer: ReadonlyMap<string, number> },
): Set<DeferredPass> {
  const crowded = new Set<DeferredPass>()
  const counts = new Map(newer)
  for (const pass of passes.toReversed()) {
    if (pass.why !== 'dead_letter') continue
    const count = (counts.get(pass.key.originator) ?? 0) + 1
    counts.set(pass.key.originator, count)
    if (count > share) crowded.add(pass)
  }
  return crowded
}

/** The most that each may have so that all together have at most `most`: those that have less leave the rest to the others. */
export function fairShare(counts: readonly number[], most: number): number {
  let left = most
  let others = counts.length
  for (const count of counts.toSorted((a, b) => a - b)) {
    const share = Math.floor(left / others)
    if (count > share) return share
    left -= count
    others--
  }
  return Number.POSITIVE_INFINITY
}
