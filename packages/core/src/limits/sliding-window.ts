import type { PassKey } from '@passover/schemas'

const SECOND_MS = 1_000
/** A minute and the second that is running: nothing younger than 60 s is ever left out. */
const SECONDS = 61
/** Tallies of pairs that have been silent are looked for this often. */
const SWEEP_MS = 120_000

/** A minute as a snapshot has it: its newest second, and the number of each second, the newest first. */
export type PackedWindow = [subagent: string, originator: string, newest: number, ...counts: number[]]

/** How many passes began within the last minute, counted by the second. Fixed in memory; O(1) an event. */
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

  /** After how many ms fewer than `limit` are counted, if none begins meanwhile. */
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

/** What is counted of a pair, or of all passes to a subagent. */
export interface PairCounter {
  /** Passes that began, held ones too, and did not end. */
  active: number
  /** Those of them that wait for a person to approve their start. */
  held: number
  readonly minute: SlidingWindowCounter
}

interface SubagentTally extends PairCounter {
  readonly pairs: Map<string, PairCounter>
}

/**
 * Which passes a limit counts: those of the pair; all to the subagent; or, as a `share`, those to it of one originator. The last two leave
 * held passes out of `max_active`, because no worker works on them.
 */
export type RateScope = 'pair' | 'subagent' | 'share'

/**
 * Passes by pair and by subagent: what is open, and what began within a minute; and held passes by originator. O(1) an event; what fell silent is
 * forgotten.
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

  /** Passes of an originator, to any subagent, that wait for a person to approve their start. */
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

  /** A pass that is open, whose beginning is counted already. */
  restored(key: PassKey, held: boolean): void {
    this.#add(key, 1, held)
  }

  /** A held pass was dispatched. */
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

  /** The minutes of all pairs as they are at this call, whatever is counted while it goes on; those of the subagents are their sums. */
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
