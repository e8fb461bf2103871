import { readHeaders, type Stored, Subjects } from '@passover/bus'
import { expect, it } from 'vitest'
import { Archiver, type ArchiverDeps } from './archive.js'

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
