import { segmentOf } from '@passover/archive'
import { decode } from '@passover/bus'
import { expect, it } from 'vitest'
import { Aging } from './aging.js'

const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000
/** What time it is. */
const NOW = 100 * DAY_MS

interface Given {
  /** How long is kept, days, each time that it is asked for. */
  kept?: (number | undefined)[]
  /** Times of the newest message of each segment. */
  times?: number[]
  told?: boolean
  /** The archive was lost since that was told. */
  sealedAnew?: boolean
  /** Segments of which something stands in the stream. */
  standing?: number[]
  /** Who speaks of custody meanwhile makes what is told lose. */
  lost?: boolean
}

/** What an aging of these segments tells, and which of them it then looks at to remove them. */
async function aged({ kept = [7], times = [0, 1, 2, 3], told = false, sealedAnew = false, standing = [], lost = false }: Given) {
  const entries = times.map((last_time, k) => ({
    k,
    count: 1,
    first_time: last_time,
    last_time,
    object: `${k}.frames`,
    index: `${k}.index`,
    chain_before: String(k),
    chain_after: String(k + 1),
  }))
  const looked: number[] = []
  const said: unknown[] = []
  const custody = {
    removals_since: 1,
    position: 5,
    toldOf: () => (told ? { to: 0, chain_after: sealedAnew ? 'other' : '1' } : undefined),
    holds: [],
    erasures: [],
    pending: undefined,
    stays: () => false,
  }
  const manifest = {
    all: async () => entries,
    newest: async () => entries.at(-1),
    entry: async (k: number) => entries[k],
    // Another audit's: there is nothing to do.
    standing: async (k: number) => void looked.push(k),
  }
  const first = async (_: string, from: number) =>
    standing.includes(segmentOf(from)) ? { sequence: from, subject: 'work.a.b.c.medium' } : undefined
  const publish = async ({ data, guard }: { data: Uint8Array; guard: unknown }) => {
    const body = decode(data)
    said.push([body.ok && body.value, guard])
    return lost ? { kind: 'lost' } : { kind: 'stored', sequence: 6 }
  }
  const aging = new Aging({
    bus: {
      clockMeasured: true,
      now: () => NOW,
      journal: { first },
      publish,
      subjects: { parse: () => ({ kind: 'work' }), custody: (name: string) => `custody.${name}`, all: () => 'custody.*' },
    },
    clock: { monotonic: () => 0 },
    log: { info: () => undefined },
    archive: { finder: { complete: true }, passesIn: async () => [] },
    objects: { list: async () => [] },
    manifest,
    watch: { custody, current: async () => custody },
    retention: () => {
      const days = kept.length > 1 ? kept.shift() : kept[0]
      return days === undefined ? undefined : { days, policy: 3 }
    },
  } as never)
  await aging.look()
  expect(aging.trouble).toBeUndefined()
  return { looked, said }
}

it('hears before each segment that more is kept, or that nobody knows how much', async () => {
  const lookedAt = async (...kept: (number | undefined)[]) => (await aged({ kept })).looked
  expect(await lookedAt(7)).toEqual([0, 1, 2, 3])
  expect(await lookedAt(7, 7, 7, 90)).toEqual([0, 1])
  expect(await lookedAt(7, 7, undefined)).toEqual([0])
  expect(await lookedAt(undefined, 7)).toEqual([])
})

it('tells all that leave by one event, guarded on what was said before, and what stays is not among them', async () => {
  const { looked, said } = await aged({ standing: [2] })
  const run = (from: number, to: number) => ({
    from,
    to,
    entries: to - from + 1,
    first_time: from,
    last_time: to,
    chain_before: String(from),
    chain_after: String(to + 1),
  })
  const body = { v: 1, kind: 'removed', segments: [run(0, 1), run(3, 3)], policy: 3, retention_days: 7 }
  expect(said).toEqual([[body, { subject: 'custody.*', sequence: 5 }]])
  expect(looked).toEqual([0, 1, 3])
})

it('removes nothing that was not told: who spoke meanwhile is heard first', async () => {
  expect(await aged({ lost: true })).toMatchObject({ looked: [], said: [expect.anything()] })
})

it('waits an hour for others, since what is told stays; what was told, and many, do not wait', async () => {
  const due = NOW - 7 * DAY_MS
  const fresh = { times: [due - HOUR_MS + 1, due - 1] }
  expect(await aged(fresh)).toEqual({ looked: [], said: [] })
  expect((await aged({ times: [due - HOUR_MS, due - 1] })).looked).toEqual([0, 1])
  expect(await aged({ ...fresh, told: true })).toEqual({ looked: [0, 1], said: [] })
  expect((await aged({ ...fresh, told: true, sealedAnew: true })).said).toHaveLength(1)
  expect((await aged({ times: Array.from({ length: 40 }, () => due - 1) })).looked).toHaveLength(32)
})
