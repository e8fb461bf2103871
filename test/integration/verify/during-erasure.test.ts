import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ARCHIVE_BUCKET, folderArchive, SEGMENT_SIZE } from '@passover/archive'
import { type Bus, decode, type StoredMessage } from '@passover/bus'
import { type Verdict, verifyAndSave, verifyArchive, verifyLive } from '@passover/cli'
import type { Part } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { fillTo } from '../../support/assertions/stream.js'
import { type AuditFixture, auditFixture, replaced } from '../../support/fixtures/audit.js'
import { Erasable } from '../../support/fixtures/erasure.js'

const WINDOW_MS = 1_000

/** An installation goes on while it is verified: what an erasure takes away meanwhile is not missing. */
describe('verify while a session is erased', () => {
  let fixture: AuditFixture
  let bus: Bus
  let to: Erasable
  beforeAll(async () => {
    fixture = await auditFixture()
    bus = fixture.bus
    to = new Erasable(bus)
    await fixture.register('alice', 'audit')
    await bus.ensureAgent('alice', { subagent: false, max_attempts: 3, lease_ms: 5_000 })
    const audit = await fixture.audit({ id_window_ms: WINDOW_MS })
    // Sealed, and in the segment that is open.
    await to.fill('sealed')
    await to.story('stays').whole()
    await fillTo(bus, SEGMENT_SIZE)
    for (const session of ['sealed', 'stays', 'open', 'stays']) await to.story(session).whole()
    await audit.settled()
  })
  afterAll(() => fixture[Symbol.asyncDispose]())

  const erase = async (session: string) => {
    const ended = await to.ended(await to.says({ kind: 'erase', session, reason: 'asked for' }))
    expect(ended).toMatchObject({ state: 'done' })
  }
  // A story's digest is none.
  const told = ({ shown, counts }: Verdict) => ({ faults: shown.filter(({ rule }) => rule !== 'digest'), erased: counts.erased })
  const saysDone = ({ data }: StoredMessage) => {
    const read = decode(data)
    return read.ok && (read.value as { kind?: unknown }).kind === 'done'
  }
  const verified = async (through = bus) => told(await verifyLive(through, { id_window_ms: WINDOW_MS }))

  it('a segment that is written anew after the manifest was read is read as it stands then', async () => {
    let listed = 0
    const through = replaced(bus, {
      async table(...args: Parameters<Bus['table']>) {
        const table = await bus.table(...args)
        if (args[0] !== ARCHIVE_BUCKET) return table
        const entries = async function* (filter?: string) {
          const found = []
          for await (const entry of table.entries(filter)) found.push(entry)
          if (filter !== undefined && listed++ === 0) await erase('sealed')
          yield* found
        }
        return replaced(table, { entries })
      },
    })
    const save = await mkdtemp(join(tmpdir(), 'passover-saved-'))
    const saving = { id_window_ms: WINDOW_MS, save }
    const meanwhile = await verifyLive(through, saving)
    expect(listed).toBe(1)
    expect(told(meanwhile)).toEqual({ faults: [], erased: 9 + 3 })
    // Fails where what was read is kept: the folder has the digests, and their tombstones are stored behind what it holds.
    expect(meanwhile.unsaved).toBe('a session was erased during the check')
    expect(await readdir(save)).toEqual([])
    const again = await verifyLive(bus, saving)
    expect([told(again), again.unsaved]).toEqual([told(meanwhile), undefined])
    expect(told(await verifyArchive(folderArchive(save), { id_window_ms: WINDOW_MS }))).toEqual(told(meanwhile))
    await rm(save, { recursive: true })
  }, 120_000)

  it('while a session is being erased nothing is saved: that is said before anything is read, and it is read once', async () => {
    const said: string[] = []
    const through = replaced(bus, {
      // At first, as it was before the erasure was done.
      follow: (options: Parameters<Bus['follow']>[0], take: Parameters<Bus['follow']>[1]) =>
        bus.follow(options, (stored, fact) => (said.length === 0 && saysDone(stored) ? undefined : take(stored, fact))),
      bounds: () => {
        said.push('reads')
        return bus.bounds()
      },
    })
    const save = await mkdtemp(join(tmpdir(), 'passover-saved-'))
    const verdict = await verifyAndSave(through, { id_window_ms: WINDOW_MS, save, onUnsaved: (why) => void said.push(why) })
    expect(said).toEqual(['a session is being erased', 'reads'])
    expect({ ...told(verdict), unsaved: verdict.unsaved }).toEqual({ faults: [], erased: 9 + 3, unsaved: 'a session is being erased' })
    expect(await readdir(save)).toEqual([])
    await rm(save, { recursive: true })
  }, 120_000)

  it('what leaves the stream behind the archive has its tombstone, though that is stored behind what is read', async () => {
    const through = replaced(bus, {
      async bounds() {
        const bounds = await bus.bounds()
        await erase('open')
        return bounds
      },
    })
    const meanwhile = await verified(through)
    expect(meanwhile).toEqual({ faults: [], erased: 9 + 3 + 3 })
    expect(await verified()).toEqual(meanwhile)
  }, 120_000)

  it('a large part that goes with the pass that names it, which was read already, is not missing', async () => {
    const parts = await to.large('alone with the last')
    const named = parts.find(({ owner }) => owner !== undefined) as Part
    await to.story('parted', { parts }).whole()
    let fetched = 0
    const fetch = async (part: Part) => {
      if (part.hash === named.hash && fetched++ === 0) await erase('parted')
      return bus.parts.fetch(part)
    }
    const { faults } = await verified(replaced(bus, { parts: replaced(bus.parts, { fetch }) }))
    expect(fetched).toBe(1)
    expect(faults).toEqual([])
    await expect(bus.parts.fetch(named)).rejects.toThrow('is missing')
  }, 120_000)
})
