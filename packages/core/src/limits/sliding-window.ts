import type { PassKey } from '@passover/schemas'

const SECOND_MS = 1_000
/** Number of one-second slots: a full minute and the current second, so that the last 60 s are always included. */
const SECONDS = 61
/** Interval at which counters of inactive pairs are removed. */
const SWEEP_MS = 120_000

/** A window in a snapshot: its newest second, then the count of each second, newest first. */
export type PackedWindow = [subagent: string, originator: string, newest: number, ...counts: number[]]

/** Counts the passes that began within the last minute, in slots of one second. Fixed memory; O(1) per event. */
export class SlidingWindowCounter {
  readonly #slots = new Uint32Array(SECONDS)
  #newest = 0
  #total = 0

  add(time: number, count = 1): void {
    const second = secondOf(time)
    this.#turn(second)
    if (this.#newest - second >= SECONDS) return
    this.#put(second, this.#at(second) + count)
  }

  count(now: number): number {
    this.#turn(secondOf(now))
    return this.#total
  }

  /** Returns the milliseconds until fewer than `limit` passes are counted, if no other pass begins. */
  freesIn(limit: number, now: number): number {
    let left = this.count(now)
    for (let second = this.#newest - SECONDS + 1; second <= this.#newest; second++) {
      if (left < limit) break
      left -= this.#at(second)
      if (left < limit) return Math.max(1, (second + SECONDS) * SECOND_MS - now)
    }
    return 0
  }

  copy(): SlidingWindowCounter {
    const copy = new SlidingWindowCounter()
    copy.#slots.set(this.#slots)
    copy.#newest = this.#newest
    copy.#total = this.#total
    return copy
  }

  pack(): [newest: number, ...counts: number[]] {
    const counts = Array.from({ length: SECONDS }, (_, back) => this.#at(this.#newest - back))
    return [this.#newest, ...counts.slice(0, counts.findLastIndex((count) => count > 0) + 1)]
  }

  unpack([newest, ...counts]: readonly number[]): this {
    for (const [back, count] of counts.entries()) if (count > 0) this.add(((newest ?? 0) - back) * SECOND_MS, count)
    return this
  }

  #at(second: number): number {
    return this.#slots[((second % SECONDS) + SECONDS) % SECONDS] ?? 0
  }

  #put(second: number, count: number): void {
    this.#total += count - this.#at(second)
    this.#slots[((second % SECONDS) + SECONDS) % SECONDS] = count
  }

  #turn(second: number): void {
    if (second <= this.#newest) return
    for (let next = Math.max(this.#newest + 1, second - SECONDS + 1); next <= second; next++) this.#put(next, 0)
    this.#newest = second
  }
}

/** Counts of a pair, or of all passes to a subagent. */
export interface PairCounter {
  /** Number of passes that began and did not end, including held ones. */
  active: number
  /** Number of those that wait for approval before their start. */
  held: number
  readonly minute: SlidingWindowCounter
}

interface SubagentTally extends PairCounter {
  readonly pairs: Map<string, PairCounter>
}

/**
 * Passes that a limit counts: those of the pair, all to the subagent, or (`share`) those of one originator to the subagent. The last two exclude held
 * passes from `max_active`, because no worker runs them.
 */
export type RateScope = 'pair' | 'subagent' | 'share'

/**
 * Counts open passes, and those begun within the last minute, by pair and by subagent; also held passes by originator. O(1) per event; inactive pairs
 * are removed.
 */
export class PairCounters {
  readonly #subagents = new Map<string, SubagentTally>()
  readonly #held = new Map<string, number>()
  #swept = 0

  get size(): number {
    let size = 0
    for (const { pairs } of this.#subagents.values()) size += pairs.size
    return size
  }

  /** Returns the number of passes of an originator, to all subagents, that wait for approval before their start. */
  held(originator: string): number {
    return this.#held.get(originator) ?? 0
  }

  begun(key: PassKey, time: number, held: boolean): void {
    if (time - this.#swept >= SWEEP_MS) this.#sweep(time)
    const all = this.#subagent(key.subagent)
    const pair = pairOf(all, key.originator)
    all.minute.add(time)
    pair.minute.add(time)
    this.#add(key, 1, held)
  }

  /** Adds an open pass whose beginning is already in the window. */
  restored(key: PassKey, held: boolean): void {
    this.#add(key, 1, held)
  }

  /** Records that a held pass was dispatched. */
  dispatched({ originator, subagent }: PassKey): void {
    const all = this.#subagent(subagent)
    all.held -= 1
    pairOf(all, originator).held -= 1
    this.#addHeld(originator, -1)
  }

  ended(key: PassKey, held: boolean): void {
    this.#add(key, -1, held)
  }

  of(scope: RateScope, { originator, subagent }: Pick<PassKey, 'originator' | 'subagent'>): PairCounter | undefined {
    const all = this.#subagents.get(subagent)
    return scope === 'subagent' ? all : all?.pairs.get(originator)
  }

  #add({ originator, subagent }: PassKey, count: 1 | -1, held: boolean): void {
    const all = this.#subagent(subagent)
    for (const tally of [all, pairOf(all, originator)]) {
      tally.active += count
      if (held) tally.held += count
    }
    if (held) this.#addHeld(originator, count)
  }

  #addHeld(originator: string, more: 1 | -1): void {
    const count = this.held(originator) + more
    if (count > 0) this.#held.set(originator, count)
    else this.#held.delete(originator)
  }

  /**
   * Yields the windows of all pairs as of the call, even if counts change while the caller iterates. Windows of subagents are not included: they are
   * sums.
   */
  pack(): Generator<PackedWindow> {
    const minutes: [subagent: string, originator: string, minute: SlidingWindowCounter][] = []
    for (const [subagent, { pairs }] of this.#subagents) {
      for (const [originator, { minute }] of pairs) minutes.push([subagent, originator, minute.copy()])
    }
    return (function* (): Generator<PackedWindow> {
      for (const [subagent, originator, minute] of minutes) {
        const packed = minute.pack()
        if (packed.length > 1) yield [subagent, originator, ...packed]
      }
    })()
  }

  unpack([subagent, originator, newest, ...counts]: PackedWindow): void {
    for (const [back, count] of counts.entries()) {
      if (count === 0) continue
      const all = this.#subagent(subagent)
      const time = (newest - back) * SECOND_MS
      all.minute.add(time, count)
      pairOf(all, originator).minute.add(time, count)
    }
  }

  #subagent(name: string): SubagentTally {
    let tally = this.#subagents.get(name)
    if (!tally) {
      tally = { active: 0, held: 0, minute: new SlidingWindowCounter(), pairs: new Map() }
      this.#subagents.set(name, tally)
    }
    return tally
  }

  #sweep(time: number): void {
    this.#swept = time
    const isSilent = ({ active, minute }: PairCounter) => active === 0 && minute.count(time) === 0
    for (const [name, all] of this.#subagents) {
      for (const [originator, pair] of all.pairs) if (isSilent(pair)) all.pairs.delete(originator)
      if (all.pairs.size === 0) this.#subagents.delete(name)
    }
  }
}

function pairOf({ pairs }: SubagentTally, originator: string): PairCounter {
  let tally = pairs.get(originator)
  if (!tally) {
    tally = { active: 0, held: 0, minute: new SlidingWindowCounter() }
    pairs.set(originator, tally)
  }
  return tally
}

function secondOf(time: number): number {
  return Math.floor(time / SECOND_MS)
}
