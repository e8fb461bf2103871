import { SegmentDamaged, segmentOf } from '@passover/archive'
import { decode, ObjectError } from '@passover/bus'
import { expect, it } from 'vitest'
import { ArchiveRetention } from './archive-retention.js'

const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000
/** What time it is. */
const NOW = 100 * DAY_MS

interface Given {
  /** How long is kept, days, each time that it is asked for. */
  kept?: (number | undefined)[]
  /** The version that says so, each time. */
  policy?: number[]
  /** Times of the newest message of each segment. */
  times?: number[]
  /** Segments of which an event tells. */
  told?: number[]
  /** So many of the oldest hold nothing. */
  empty?: number
  /** The archive was lost since that was told. */
  sealedAnew?: boolean
  /** Segments of which something stands in the stream. */
  standing?: number[]
  /** Who speaks of custody meanwhile makes what is told lose. */
  lost?: boolean
  /** Segments that another audit removed before, with their objects. */
  gone?: number[]
  /** What reading a segment's index throws. */
  damage?: Map<number, Error>
}

/** What an aging of these segments tells, and which of them it then looks at to remove them. */
async function aged(given: Given) {
  const { aging: retention, looked, said } = agingOf(given)
  await retention.look()
  expect(retention.trouble).toBeUndefined()
  return { looked, said }
}

function agingOf(given: Given) {
  const {
    kept = [7],
    policy = [3],
    times = [0, 1, 2, 3],
    told = [],
    sealedAnew = false,
    standing = [],
    lost = false,
    gone = [],
    damage,
    empty = 0,
  } = given
  const entries = times.map((last_time, k) => ({
    k,
    count: k < empty ? 0 : 1,
    first_time: last_time,
    last_time,
    object: `${k}.frames`,
    index: `${k}.index`,
    chain_before: String(k),
    chain_after: String(k + 1),
    ...(gone.includes(k) ? { removed: { why: 'retention' } } : {}),
  }))
  const looked: number[] = []
  const forgotten: number[] = []
  const said: unknown[] = []
  const custody = {
    removals_since: 1,
    position: 5,
    toldOf: (k: number) => (told.includes(k) ? { to: k, chain_after: sealedAnew ? 'other' : String(k + 1) } : undefined),
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
  const clock = { at: 0 }
  const next = <T>(values: T[]) => (values.length > 1 ? (values.shift() as T) : (values[0] as T))
  const retention = new ArchiveRetention({
    bus: {
      clockMeasured: true,
      now: () => NOW,
      journal: { first },
      publish,
      subjects: { parse: () => ({ kind: 'work' }), custody: (name: string) => `custody.${name}`, all: () => 'custody.*' },
    },
    clock: { monotonic: () => clock.at },
    log: { info: () => undefined, warn: () => undefined },
    archive: {
      finder: { complete: true },
      forget: (k: number) => void forgotten.push(k),
      async passesIn(k: number) {
        const error = damage?.get(k)
        if (error) throw error
        return []
      },
    },
    rows: { removeWithin: () => undefined },
    indexing: { forgetGone: async () => undefined },
    objects: { list: async () => entries.flatMap(({ k, object, index }) => (gone.includes(k) ? [] : [object, index])) },
    manifest,
    watch: { custody, current: async () => custody },
    retention: () => {
      const days = next(kept)
      return days === undefined ? undefined : { days, policy: next(policy) }
    },
  } as never)
  return { aging: retention, looked, said, forgotten, clock }
}

it('forgets what another audit removed before it looked, and looks at the rest', async () => {
  const { aging: retention, looked, forgotten } = agingOf({ gone: [0, 2] })
  await retention.look()
  expect([forgotten, looked]).toEqual([
    [0, 2],
    [1, 3],
  ])
})

it('hears before each segment that more is kept, or that nobody knows how much', async () => {
  const lookedAt = async (...kept: (number | undefined)[]) => (await aged({ kept })).looked
  expect(await lookedAt(7)).toEqual([0, 1, 2, 3])
  expect(await lookedAt(7, 7, 7, 7, 90)).toEqual([0, 1])
  expect(await lookedAt(7, 7, 7, undefined)).toEqual([0])
  expect(await lookedAt(undefined, 7)).toEqual([])
})

it('reports due segments that have to stay, with the message that keeps them, until they leave or are no longer due', async () => {
  const kept = [7, 7, 7, 7, 7, 1_000]
  const { aging: retention } = agingOf({ kept, standing: [2] })
  await retention.look()
  expect(retention.overdue()).toEqual([{ segment: 2, why: 'stream', sequence: 8_192 }])
  await retention.look()
  expect(retention.overdue()).toEqual([])
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

// Fails where it tells what was in force when it began to look: verify holds the event against what the version keeps, and against when it was said.
it('tells nothing by a version that another one followed while it looked', async () => {
  const nothing = { looked: [], said: [] }
  expect(await aged({ kept: [7, 90] })).toEqual(nothing)
  expect(await aged({ kept: [7, undefined] })).toEqual(nothing)
  expect(await aged({ policy: [3, 4] })).toEqual(nothing)
})

// Fails where the damage of one ends the look: nothing younger leaves then either.
it('one that cannot be read keeps no other; it is told until it can be', async () => {
  const damage = new Map<number, Error>([
    [0, new SegmentDamaged('object 0.index is missing', 0)],
    [2, new ObjectError('chunk 1 of 1 is not there')],
  ])
  const { aging: retention, looked, clock } = agingOf({ damage })
  await retention.look()
  expect([looked, retention.trouble]).toEqual([[1, 3], 'object 0.index is missing'])
  damage.delete(0)
  // It is not looked at again at once, and is no better for it.
  await retention.look()
  expect([looked, retention.trouble]).toEqual([[1, 3], 'object 0.index is missing'])
  clock.at = 60_000
  await retention.look()
  expect([looked, retention.trouble]).toEqual([[1, 3, 0], 'chunk 1 of 1 is not there'])
  damage.clear()
  clock.at = 120_000
  await retention.look()
  expect([looked, retention.trouble]).toEqual([[1, 3, 0, 2], undefined])
})

it("another error ends the look; damage of what is no longer due is nobody's trouble", async () => {
  const broken = agingOf({ damage: new Map([[0, new Error('the connection is gone')]]) })
  await broken.aging.look()
  expect([broken.looked, broken.aging.trouble]).toEqual([[], 'the connection is gone'])
  const kept = [7, 7, 7, 7, 7, 1_000]
  const { aging: retention } = agingOf({ kept, damage: new Map([[0, new SegmentDamaged('cut off', 0)]]) })
  await retention.look()
  expect(retention.trouble).toBe('cut off')
  await retention.look()
  expect(retention.trouble).toBeUndefined()
})

it('removes nothing that was not told: who spoke meanwhile is heard first', async () => {
  expect(await aged({ lost: true })).toMatchObject({ looked: [], said: [expect.anything()] })
})

it('waits an hour for others, since what is told stays; what was told, and many, do not wait', async () => {
  const due = NOW - 7 * DAY_MS
  const fresh = { times: [due - HOUR_MS + 1, due - 1] }
  expect(await aged(fresh)).toEqual({ looked: [], said: [] })
  expect((await aged({ times: [due - HOUR_MS, due - 1] })).looked).toEqual([0, 1])
  expect(await aged({ ...fresh, told: [0, 1] })).toEqual({ looked: [0, 1], said: [] })
  expect((await aged({ told: [0, 1, 2, 3], sealedAnew: true })).said).toHaveLength(1)
  expect((await aged({ times: Array.from({ length: 40 }, () => due - 1) })).looked).toHaveLength(32)
  // Fails where what was told, or what a hold keeps, ends the patience for others, too.
  expect(await aged({ ...fresh, told: [0] })).toEqual({ looked: [0], said: [] })
  expect(await aged({ times: [0, due - 1], standing: [0] })).toEqual({ looked: [], said: [] })
  // Where none of the oldest holds anything, none of them has a time.
  expect((await aged({ times: Array.from({ length: 33 }, () => due - 1), empty: 32 })).looked).toHaveLength(32)
})
