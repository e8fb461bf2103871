import { keyText } from '@passover/schemas'
import type { DeferredPass, DeferredSegment, DeletionState } from './deletion-state.js'

/** Maximum number of deferred items in memory. Of further segments only the counts are kept; their items are read again in turns. */
const MAX_IN_MEMORY = 50_000
const MAX_READS_PER_RUN = 32
/** Maximum number of unsettled dead letters that are kept. */
const MAX_DEAD_LETTERS = 20_000

interface SegmentCounts {
  passes: number
  /** Number of dead letters by originator. */
  letters: ReadonlyMap<string, number>
  advisories: number
  /** Items in memory, or `undefined` if they are only in the bucket. */
  kept: DeferredSegment | undefined
}

/** Passes and advisories that could not be deleted yet from otherwise processed segments. Stored in the bucket, and in memory up to a limit. */
export class DeferredDeletions {
  readonly #state: Pick<DeletionState, 'deferred' | 'deferredIn' | 'defer'>
  readonly #most: number
  readonly #most_letters: number
  readonly #segments = new Map<number, SegmentCounts>()
  #kept = 0
  /** Segment below which the next segments that are not in memory are read. */
  #turn = Number.POSITIVE_INFINITY

  constructor(state: Pick<DeletionState, 'deferred' | 'deferredIn' | 'defer'>, most = MAX_IN_MEMORY, most_letters = MAX_DEAD_LETTERS) {
    this.#state = state
    this.#most = most
    this.#most_letters = most_letters
  }

  /** Number of deferred passes and advisories. */
  get size(): number {
    let size = 0
    for (const { passes, advisories } of this.#segments.values()) size += passes + advisories
    return size
  }

  /** Returns the deferred passes (as `keyText`) that are in memory. */
  texts(): Set<string> {
    const passes = [...this.#segments.values()].flatMap(({ kept }) => kept?.passes ?? [])
    return new Set(passes.map(({ key }) => keyText(key)))
  }

  /** Loads the items that another process left in the bucket. */
  async load(): Promise<void> {
    this.#segments.clear()
    this.#kept = 0
    for await (const [k, waiting] of this.#state.deferred()) this.#note(k, waiting)
  }

  async put(k: number, waiting: DeferredSegment): Promise<void> {
    await this.#state.defer(k, waiting)
    this.#note(k, waiting)
  }

  /**
   * Removes passes of which a younger message was stored: the segment of that message decides about them. Passes that are not in memory are found
   * when their segment is read.
   */
  async removePasses(texts: ReadonlySet<string>): Promise<void> {
    for (const [k, { kept }] of [...this.#segments]) {
      const still = kept?.passes.filter(({ key }) => !texts.has(keyText(key)))
      if (kept && still && still.length < kept.passes.length) await this.put(k, { passes: still, advisories: kept.advisories })
    }
  }

  /**
   * Yields the segments to check again, newest first. Of those that are not in memory, each call reads a few in turn. `crowded` holds dead letters
   * beyond their originator's share. Each originator keeps its newest ones, so one with many takes no room from the others.
   */
  async *due(): AsyncGenerator<{ k: number; waiting: DeferredSegment; crowded: ReadonlySet<DeferredPass> }> {
    const share = this.#shareOfLetters()
    const newer = new Map<string, number>()
    const read = this.#turns()
    for (const [k, counted] of this.#inOrder()) {
      const waiting = counted.kept ?? (read.has(k) ? await this.#state.deferredIn(k) : undefined)
      if (waiting) yield { k, waiting, crowded: crowdedIn(waiting, { share, newer }) }
      addCounts(newer, counted.letters)
    }
  }

  /** Returns how many dead letters each originator may keep. */
  #shareOfLetters(): number {
    const all = new Map<string, number>()
    for (const { letters } of this.#segments.values()) addCounts(all, letters)
    return fairShare([...all.values()], this.#most_letters)
  }

  #inOrder(): [number, SegmentCounts][] {
    return [...this.#segments].sort(([a], [b]) => b - a)
  }

  #turns(): ReadonlySet<number> {
    const stored = this.#inOrder().flatMap(([k, { kept }]) => (kept ? [] : [k]))
    const next = stored.filter((k) => k < this.#turn).slice(0, MAX_READS_PER_RUN)
    // Starts again with the newest segment.
    const turn = next.length > 0 ? next : stored.slice(0, MAX_READS_PER_RUN)
    this.#turn = turn.at(-1) ?? Number.POSITIVE_INFINITY
    return new Set(turn)
  }

  #note(k: number, waiting: DeferredSegment): void {
    const { passes, advisories } = waiting
    this.#kept -= sizeOf(this.#segments.get(k)?.kept)
    this.#segments.delete(k)
    const size = sizeOf(waiting)
    if (size === 0) return
    const isKept = this.#kept + size <= this.#most
    if (isKept) this.#kept += size
    this.#segments.set(k, {
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

/** Returns the dead letters beyond their originator's share. `newer` counts those in later segments. */
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

/** Returns the highest limit per originator that keeps the total at or below `most`. Originators with fewer leave the rest to the others. */
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
