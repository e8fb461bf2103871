import { STATS_BY, type StatsAnswer, type StatsBy, type StatsGroup } from '@passover/schemas'
import type { AckIndex } from '../acknowledgments/ack-index.js'
import { Histogram } from './histogram.js'
import type { Block } from './index/column-block.js'
import { UNDELIVERED } from './index/index-entry.js'
import type { IndexFilter } from './index/index-filter.js'
import type { PassIndex } from './index/pass-index.js'

export type Stats = Omit<Extract<StatsAnswer, { ok: true }>, 'ok' | 'complete'>

/** Maximum number of groups returned for each way of grouping; the largest ones are kept. */
const MAX_GROUPS = 100
const BLOCKS_PER_BATCH = 8

/** Lookup of the returns that originators have acknowledged. */
type Acknowledges = Pick<AckIndex, 'has'>

/** Returns counts and durations of the passes in the index. Counts groups first, and collects durations only for the largest ones. */
export async function statsOf(index: PassIndex, filter: IndexFilter, acknowledged: Acknowledges): Promise<Stats> {
  const dimensions = STATS_BY.map((by) => new Dimension(by, index))
  const all = new Histogram()
  let passes = 0
  const entries = new Entries(index, filter, acknowledged)
  await entries.each((block, at, code) => {
    passes++
    for (const dimension of dimensions) dimension.count(block, at, code)
  })
  for (const dimension of dimensions) dimension.choose()
  await entries.each((block, at, code) => {
    const wall = block.wall[at] ?? -1
    if (wall < 0) return
    all.add(wall)
    for (const dimension of dimensions) dimension.time({ block, at, code }, wall)
  })
  const by = Object.fromEntries(dimensions.map((dimension) => [dimension.by, dimension.told()])) as Stats['by']
  return { passes, wall_ms: all.told(), by }
}

/** `code` is the dictionary number of the error code that a row would show. */
type Each = (block: Block, at: number, code: number) => void

/** Index entries that match a filter. For some, as for rows, it depends on acknowledgments, because a record does not say if its return was taken. */
class Entries {
  readonly #index: PassIndex
  readonly #filter: IndexFilter
  readonly #acknowledged: Acknowledges
  readonly #returned: number | undefined
  readonly #undelivered: number | undefined
  readonly #none: number

  constructor(index: PassIndex, filter: IndexFilter, acknowledged: Acknowledges) {
    this.#index = index
    this.#filter = filter
    this.#acknowledged = acknowledged
    this.#returned = index.numberOf('returned')
    this.#undelivered = index.numberOf(UNDELIVERED)
    this.#none = index.numberOf('') ?? -1
  }

  /** Calls `each` for every match. Yields to other work after every few blocks. */
  async each(each: Each): Promise<void> {
    const { blocks, matches } = this.#index.scan(this.#filter)
    for (const [number, block] of blocks.entries()) {
      for (let at = 0; at < block.used; at++) {
        if (block.revision[at] === 0 || !matches(block, at)) continue
        if (!this.#depends(block, at)) {
          each(block, at, block.code[at] ?? 0)
          continue
        }
        const known = this.#isAcknowledged(block, at)
        this.#settle({ block, at, acknowledged: typeof known === 'boolean' ? known : await known }, each)
      }
      if (number % BLOCKS_PER_BATCH === BLOCKS_PER_BATCH - 1) await new Promise<void>((done) => void setImmediate(done))
    }
  }

  #depends({ status, code }: Block, at: number): boolean {
    return (this.#filter.status !== undefined && status[at] === this.#returned) || code[at] === this.#undelivered
  }

  #isAcknowledged({ originator, returned }: Block, at: number): boolean | Promise<boolean> {
    const name = this.#index.wordOf('agents', originator[at] ?? 0)
    const sequence = returned[at] ?? 0
    return name !== undefined && sequence > 0 && this.#acknowledged.has(name, sequence)
  }

  /** Applies the acknowledgment to an entry in the same way as `withRowDelivery` does to a row. */
  #settle({ block, at, acknowledged }: { block: Block; at: number; acknowledged: boolean }, each: Each): void {
    const { status, code } = this.#filter
    const isReturned = block.status[at] === this.#returned
    const delivered = isReturned ? (acknowledged ? 'processed' : 'returned') : this.#index.wordOf('words', block.status[at] ?? 0)
    if (status !== undefined && delivered !== status && this.#index.wordOf('words', block.ended[at] ?? 0) !== status) return
    const cleared = acknowledged && block.code[at] === this.#undelivered
    if (!cleared) each(block, at, block.code[at] ?? 0)
    else if (code === undefined) each(block, at, this.#none)
  }
}

/** One way of grouping passes. */
class Dimension {
  readonly #index: PassIndex
  readonly #counts = new Map<number, number>()
  readonly #times = new Map<number, Histogram>()

  constructor(
    readonly by: StatsBy,
    index: PassIndex,
  ) {
    this.#index = index
  }

  count(block: Block, at: number, code: number): void {
    const group = this.#groupOf(block, at, code)
    this.#counts.set(group, (this.#counts.get(group) ?? 0) + 1)
  }

  choose(): void {
    const largest = [...this.#counts].sort(([, a], [, b]) => b - a).slice(0, MAX_GROUPS)
    for (const [group] of largest) this.#times.set(group, new Histogram())
  }

  time({ block, at, code }: { block: Block; at: number; code: number }, wall: number): void {
    this.#times.get(this.#groupOf(block, at, code))?.add(wall)
  }

  told(): { groups: StatsGroup[]; left_out: number } {
    const groups = [...this.#times].map(([group, times]) => ({
      name: nameOf(this.#index, this.by, group),
      count: this.#counts.get(group) ?? 0,
      wall_ms: times.told(),
    }))
    return { groups: groups.sort((a, b) => b.count - a.count || (a.name < b.name ? -1 : 1)), left_out: this.#counts.size - groups.length }
  }

  #groupOf(block: Block, at: number, code: number): number {
    return this.by === 'code' ? code : GROUP[this.by](block, at)
  }
}

const PAIR = 0x1_0000

/** Functions that return the group of an entry as a number. */
const GROUP: Record<Exclude<StatsBy, 'code'>, (block: Block, at: number) => number> = {
  month: ({ created }, at) => monthNumber(created[at] ?? 0),
  session: ({ session }, at) => session[at] ?? 0,
  pair: ({ originator, subagent }, at) => (originator[at] ?? 0) * PAIR + (subagent[at] ?? 0),
  status: ({ status, ended, wall }, at) => ((wall[at] ?? -1) < 0 ? (status[at] ?? 0) : (ended[at] ?? 0)),
}

let known = { from: 0, to: 0, month: 0 }

/** Returns the number of months since year 0, in UTC. */
function monthNumber(time: number): number {
  if (time >= known.from && time < known.to) return known.month
  const date = new Date(time)
  const [year, month] = [date.getUTCFullYear(), date.getUTCMonth()]
  known = { from: Date.UTC(year, month, 1), to: Date.UTC(year, month + 1, 1), month: year * 12 + month }
  return known.month
}

function nameOf(index: PassIndex, by: StatsBy, group: number): string {
  switch (by) {
    case 'month':
      return `${String(Math.floor(group / 12)).padStart(4, '0')}-${String((group % 12) + 1).padStart(2, '0')}`
    case 'session':
      return index.wordOf('sessions', group) ?? '(others)'
    case 'pair':
      return `${agentOf(index, Math.floor(group / PAIR))}->${agentOf(index, group % PAIR)}`
    case 'status':
    case 'code':
      return index.wordOf('words', group) ?? ''
  }
}

function agentOf(index: PassIndex, number: number): string {
  return index.wordOf('agents', number) ?? '(others)'
}
