import type { Manifest, ManifestEntry } from '@passover/archive'
import { type ObjectStore, readHeaders, type StoredMessage, Subjects } from '@passover/bus'
import { pino } from 'pino'
import { expect, it } from 'vitest'
import { Archiver, type ArchiverDeps } from './archiver.js'
import { sweepOrphanObjects } from './orphan-sweep.js'

const subjects = new Subjects()
const key = { originator: 'alice', subagent: 'audit', id: 'given-id-1' }

// Fails where all that is unsealed here counts: a segment that a replica had sealed meanwhile spoke against its own passes, and they stayed for good.
it('what is not sealed here speaks of what is younger than a segment only where it stands in a later one', () => {
  const options = { compression: 'none', instance: 'one', buffer_bytes: 1_000_000 } as const
  const archiver = new Archiver({} as ArchiverDeps, options, { newest: undefined, from: 4_096 })
  const headers = readHeaders('NATS/1.0\r\n\r\n')
  const stored: StoredMessage = {
    sequence: 4_100,
    time: 1,
    subject: subjects.event(key, 'cancel', 'alice'),
    headers,
    data: new Uint8Array(),
  }
  void archiver.take(stored, subjects.toFact(stored), undefined)
  const unsealed = archiver.unsealed()
  expect([unsealed(key, 0), unsealed(key, 1), unsealed({ ...key, id: 'given-id-2' }, 0)]).toEqual([true, false, false])
})

// Fails where the reader waits for a segment of 2 GiB to be sealed: nothing was recorded or answered for minutes.
it.each([
  ['too large for memory', 1, 0, 33],
  ['of 40 MiB in memory', 100_000_000, 40 * 1024 * 1024, 3],
])('the reader goes on while segments %s wait to be sealed, up to a limit', (_, buffer_bytes, size, limit) => {
  const broken = { clock: { after: () => undefined }, log: pino({ level: 'silent' }) } as unknown as ArchiverDeps
  const archiver = new Archiver(broken, { compression: 'none', instance: 'one', buffer_bytes }, { newest: undefined, from: 0 })
  const headers = readHeaders('NATS/1.0\r\n\r\n')
  const subject = subjects.event(key, 'cancel', 'alice')
  const waits = (k: number) => {
    const stored = { sequence: k * 4_096 + 4_095, time: 1, subject, headers, data: new Uint8Array(size) }
    return archiver.take(stored, subjects.toFact(stored), undefined) !== undefined
  }
  expect(Array.from({ length: limit }, (_none, k) => waits(k))).toEqual([...Array(limit - 1).fill(false), true])
})

// Fails where both write each segment: what the one wrote for nothing lies on disk, and to overwrite it costs more than it was worth.
it('of two that archive, who lost a segment writes none of the next ones while the other seals them, and goes on when it does not', async () => {
  const sealed = new Map<number, ManifestEntry>()
  const done: string[] = []
  const archiverOf = (name: string) =>
    new Archiver(
      {
        bus: { subjects, journal: { first: async () => undefined } },
        clock: { after: (_: number, fn: () => void) => setImmediate(fn) },
        log: pino({ level: 'silent' }),
        manifest: {
          entry: async (k: number) => sealed.get(k),
          claim: async (entry: ManifestEntry) => !sealed.has(entry.k) && Boolean(sealed.set(entry.k, entry)),
        },
        objects: {
          put: async (object: string) => void done.push(`put ${object}`),
          delete: async (object: string, how?: string) => void done.push(`delete ${object} ${how}`),
        },
        needed: () => undefined,
        custody: { erasedIn: async () => new Map(), forget: () => undefined },
      } as unknown as ArchiverDeps,
      { compression: 'none', instance: name, buffer_bytes: 1_000 },
      { newest: undefined, from: 1 },
    )
  const [one, other] = [archiverOf('one'), archiverOf('other')]
  const seal = async (archivers: Archiver[], k: number) => {
    done.length = 0
    for (const archiver of archivers) archiver.sealTo((k + 1) * 4_096 - 1)
    while (archivers.some(({ busy }) => busy)) await new Promise((turn) => setImmediate(turn))
    return done.filter((what) => what.endsWith('.frames') || what.endsWith('.frames overwrite'))
  }
  expect(await seal([one, other], 0)).toEqual([
    'put 0000000000.one.frames',
    'put 0000000000.other.frames',
    'delete 0000000000.other.frames overwrite',
  ])
  expect(await seal([other, one], 1)).toEqual(['put 0000000001.one.frames'])
  expect(await seal([other], 2)).toEqual(['put 0000000002.other.frames'])
  expect(await seal([one, other], 3)).toEqual(['put 0000000003.other.frames'])
})

// Fails where of a removed one only what is kept counts: its records and parts are found by what the other two say, and would stay for good.
it('of a segment that was removed it sweeps nothing that is still to be cleaned up after', async () => {
  const names = ['0000000003.a.frames', '0000000003.a.index', '0000000003.a.kept', '0000000003.b.frames']
  const removed = { kept: { object: names[2] } }
  const entry = { k: 3, object: names[0], index: names[1], removed } as unknown as ManifestEntry
  const manifest = { standing: async () => ({ entry, revision: 1 }), replace: async () => true } as unknown as Manifest
  const deleted: string[] = []
  const objects = { list: async () => names, delete: async (name: string) => void deleted.push(name) } as unknown as ObjectStore
  expect(await sweepOrphanObjects(manifest, objects)).toBe(1)
  expect(deleted).toEqual(['0000000003.b.frames'])
})

// Found by `passover chaos` (seed 501337): the server that was read from lacked 7,000 messages, and so did the archive for good.
it.each([
  ['lacks a message that the stream has is not sealed, and told', 4_099, [], /^segment 1 was read without message 4099, /],
  ['lacks only what was deleted is sealed', 4_101, ['put 0000000001.one.frames', 'put 0000000001.one.index'], undefined],
])('a segment that %s', async (_, next, puts, what) => {
  const done: string[] = []
  const missed: string[] = []
  const asked: number[] = []
  const archiver = new Archiver(
    {
      bus: {
        subjects,
        journal: {
          // The leader has everything from here on.
          first: async (_filter: string, from: number) => {
            asked.push(from)
            return { sequence: Math.max(from, next) }
          },
        },
      },
      clock: { after: () => undefined },
      log: pino({ level: 'silent' }),
      manifest: { entry: async () => undefined, claim: async () => true },
      objects: { put: async (object: string) => void done.push(`put ${object}`) },
      needed: () => undefined,
      custody: { erasedIn: async () => new Map(), forget: () => undefined },
    } as unknown as ArchiverDeps,
    { compression: 'none', instance: 'one', buffer_bytes: 1_000_000 },
    { newest: undefined, from: 4_096 },
  )
  archiver.onMissed = (told) => {
    missed.push(told)
    archiver.abandon()
  }
  const headers = readHeaders('NATS/1.0\r\n\r\n')
  for (let sequence = 4_096; sequence < 8_192; sequence++) {
    if (sequence >= 4_098 && sequence <= 4_100) continue
    const stored: StoredMessage = { sequence, time: 1, subject: subjects.event(key, 'cancel', 'alice'), headers, data: new Uint8Array() }
    void archiver.take(stored, subjects.toFact(stored), undefined)
  }
  await archiver.drain()
  expect({ done, missed, asked }).toEqual({ done: puts, missed: what ? [expect.stringMatching(what)] : [], asked: [4_098] })
})
