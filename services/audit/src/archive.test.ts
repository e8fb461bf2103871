import type { Manifest, ManifestEntry } from '@passover/archive'
import { type ObjectStore, readHeaders, type Stored, Subjects } from '@passover/bus'
import { expect, it } from 'vitest'
import { Archiver, type ArchiverDeps, sweepOrphans } from './archive.js'

const key = { originator: 'alice', subagent: 'audit', id: 'given-id-1' }

// Fails where all that is unsealed here counts: a segment that a replica had sealed meanwhile spoke against its own passes, and they stayed for good.
it('what is not sealed here speaks of what is younger than a segment only where it stands in a later one', () => {
  const options = { compression: 'none', instance: 'one', buffer_bytes: 1_000_000 } as const
  const archiver = new Archiver({} as ArchiverDeps, options, { newest: undefined, from: 4_096 })
  const subjects = new Subjects()
  const headers = readHeaders('NATS/1.0\r\n\r\n')
  const stored: Stored = { sequence: 4_100, time: 1, subject: subjects.event(key, 'cancel', 'alice'), headers, data: new Uint8Array() }
  void archiver.take(stored, subjects.toFact(stored), undefined)
  const unsealed = archiver.unsealed()
  expect([unsealed(key, 0), unsealed(key, 1), unsealed({ ...key, id: 'given-id-2' }, 0)]).toEqual([true, false, false])
})

// Fails where of a removed one only what is kept counts: its records and parts are found by what the other two say, and would stay for good.
it('of a segment that was removed it sweeps nothing that is still to be cleaned up after', async () => {
  const names = ['0000000003.a.frames', '0000000003.a.index', '0000000003.a.kept', '0000000003.b.frames']
  const removed = { kept: { object: names[2] } }
  const entry = { k: 3, object: names[0], index: names[1], removed } as unknown as ManifestEntry
  const manifest = { standing: async () => ({ entry, revision: 1 }), replace: async () => true } as unknown as Manifest
  const deleted: string[] = []
  const objects = { list: async () => names, delete: async (name: string) => void deleted.push(name) } as unknown as ObjectStore
  expect(await sweepOrphans(manifest, objects)).toBe(1)
  expect(deleted).toEqual(['0000000003.b.frames'])
})
