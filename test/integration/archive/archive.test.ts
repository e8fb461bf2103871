import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { ARCHIVE_BUCKET, Manifest, readSegment, SEGMENT_SIZE, segmentRange, verifyChain } from '@passover/archive'
import type { Bus } from '@passover/bus'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Story } from '../../support/builders/story.js'
import { type AuditFixture, auditFixture } from '../../support/fixtures/audit.js'
import { until } from '../../support/processes/until.js'

/** `PASSOVER_AUDIT_KILLS=100` for a longer look. */
const KILLS = Number(process.env.PASSOVER_AUDIT_KILLS ?? 6)

/** The archive: every message once, whatever ends the process, however many run (docs/architecture/audit-archive.md#archive, P4). */
describe('audit: the archive', () => {
  let fixture: AuditFixture
  beforeEach(async () => {
    fixture = await auditFixture()
  })
  afterEach(() => fixture[Symbol.asyncDispose]())

  it(
    `killed ${KILLS} times while messages are stored: every sequence once, the chain whole, the records those of a rebuild`,
    async () => {
      const { bus } = fixture
      let telling = true
      const told = tell(bus, { until: () => !telling, at_least: 2 * SEGMENT_SIZE })
      for (let kill = 0; kill < KILLS; kill++) {
        const audit = await spawnAudit(fixture.nats.url)
        await new Promise((later) => setTimeout(later, Math.random() * 600))
        await killed(audit)
      }
      telling = false
      await told
      const last = await fixture.audit()
      await last.settled()
      await untilViolationsAreRecorded(bus)
      await last.settled()
      await last.drain()
      await expectArchived(bus)
      await expectSameAfterRebuild(fixture)
    },
    180_000 + KILLS * 20_000,
  )

  it('two replicas side by side, one of them stopped and started: no gap, no double, nothing left over', async () => {
    const { bus } = fixture
    await fixture.audit()
    let telling = true
    const told = tell(bus, { until: () => !telling, at_least: 2 * SEGMENT_SIZE })
    for (let round = 0; round < 4; round++) {
      const replica = await fixture.audit({ compression: round % 2 === 0 ? 'gzip' : 'none' })
      await new Promise((later) => setTimeout(later, 400))
      await replica.drain()
    }
    telling = false
    await told
    const other = await fixture.audit()
    await other.settled()
    const sealed = await expectArchived(bus)
    expect((await (await bus.objects(ARCHIVE_BUCKET)).list()).length).toBe(2 * sealed)
    const impossible = await untilViolationsAreRecorded(bus)
    await other.settled()
    expect(await violationsIn(bus)).toBe(impossible)
    await expectSameAfterRebuild(fixture)
  })

  it('a segment that is too large to be buffered is streamed', async () => {
    const { bus } = fixture
    const audit = await fixture.audit({ buffer_bytes: 100_000 })
    await fill(bus, SEGMENT_SIZE)
    await audit.settled()
    expect(await expectArchived(bus)).toBe(1)
  })

  it('messages that were deleted by hand leave a segment that still adds up, and an empty one where all are gone', async () => {
    const { bus } = fixture
    await fill(bus, 3 * SEGMENT_SIZE)
    const { first, last } = segmentRange(1)
    for (let sequence = first; sequence <= last; sequence += 64) {
      await Promise.all(Array.from({ length: Math.min(64, last - sequence + 1) }, (_, n) => bus.journal.deleteMessage(sequence + n)))
    }
    const audit = await fixture.audit()
    await audit.settled()
    const manifest = await Manifest.open(bus)
    expect((await manifest.all()).map(({ k, count }) => [k, count])).toEqual([
      [0, SEGMENT_SIZE - 1],
      [1, 0],
      [2, SEGMENT_SIZE],
    ])
    expect(await verifyChain(manifest, await bus.objects(ARCHIVE_BUCKET))).toMatchObject({ ok: true, segments: 3 })
  })

  it('a changed, a swapped and a missing object are found and named', async () => {
    const { bus } = fixture
    const audit = await fixture.audit({ compression: 'none' })
    await fill(bus, 2 * SEGMENT_SIZE)
    await audit.settled()
    const manifest = await Manifest.open(bus)
    const objects = await bus.objects(ARCHIVE_BUCKET)
    const [one, two] = await manifest.all()
    const [first, second] = [await objects.get(one!.object), await objects.get(two!.object)] as [Uint8Array, Uint8Array]
    expect(await verifyChain(manifest, objects)).toMatchObject({ ok: true, segments: 2 })
    await objects.put(two!.object, second.with(1000, (second[1000] ?? 0) ^ 1))
    expect(await verifyChain(manifest, objects)).toMatchObject({
      ok: false,
      k: 1,
      what: expect.stringContaining('differs from the sealed one'),
    })
    await objects.put(two!.object, second)
    await objects.put(one!.object, second)
    expect(await verifyChain(manifest, objects)).toMatchObject({ ok: false, k: 0 })
    await objects.put(one!.object, first)
    await objects.delete(two!.object)
    expect(await verifyChain(manifest, objects)).toMatchObject({ ok: false, k: 1, what: expect.stringContaining('missing') })
  })

  it('an archive of another stream is refused', async () => {
    const { bus } = fixture
    const audit = await fixture.audit()
    await fill(bus, SEGMENT_SIZE)
    await audit.settled()
    await audit.drain()
    await fixture.deleteStream('PASSOVER')
    await expect(fixture.audit()).rejects.toThrow(/different stream/)
  })
})

/** Waits until each impossible return has its violation: it is stored after what it is about, and belongs to the record. Gives how many there are. */
async function untilViolationsAreRecorded(bus: Bus): Promise<number> {
  const impossible = (await everything(bus)).filter(({ subject, guarded }) => subject.startsWith('return.') && !guarded).length
  expect(impossible).toBeGreaterThan(0)
  await until(async () => (await violationsIn(bus)) >= impossible, { what: 'each violation is recorded', every_ms: 200 })
  return impossible
}

async function violationsIn(bus: Bus): Promise<number> {
  return (await everything(bus)).filter(({ subject }) => subject.includes('.violation.')).length
}

/** Slow enough that the test is about kills and not about volume. */
const PACE_MS = 8
const MANY = 4_000
const TELLERS = 4

/** Lives of passes of every kind, many at a time, until it may end and has stored enough. */
async function tell(bus: Bus, when: { until: () => boolean; at_least: number }): Promise<void> {
  let count = 0
  const teller = async () => {
    while (!when.until() || (await bus.bounds()).last < when.at_least) {
      // Kills take longer on a slow machine: what has to be rebuilt afterwards shall not grow with it.
      await new Promise((paced) => setTimeout(paced, count < MANY ? PACE_MS : 20 * PACE_MS))
      const n = count++
      const pass = new Story(bus, `told-pass-${String(n).padStart(6, '0')}`, {
        session_id: `session-${n % 7}`,
        subagent: n % 3 === 0 ? 'audit' : 'scout',
      })
      await pass.request()
      if (n % 11 === 0) {
        await pass.ends({ code: 'E004', message: 'disabled' })
        continue
      }
      await pass.work()
      if (n % 7 === 0) await pass.fence(2)
      if (n % 13 === 0) await pass.ends({ code: 'E010', message: 'too late' })
      else await pass.returns({}, { attempt: n % 7 === 0 ? 2 : 1 })
      if (n % 5 === 0) await pass.applied()
      if (n % 17 === 0) await pass.returns({}, { guarded: false })
    }
  }
  await Promise.all(Array.from({ length: TELLERS }, teller))
}

/** So many small messages, no passes. */
async function fill(bus: Bus, upTo: number): Promise<void> {
  while ((await bus.bounds()).last < upTo) {
    const batch = Array.from({ length: 256 }, () => bus.publish({ subject: bus.subjects.acknowledged('alice'), data: new Uint8Array(100) }))
    await Promise.all(batch)
  }
}

/** A process that reads. */
async function spawnAudit(url: string): Promise<ChildProcess> {
  const main = fileURLToPath(new URL('../../../services/audit/dist/main.js', import.meta.url))
  const child = spawn(process.execPath, [main], {
    env: { ...process.env, NATS_URL: url, PASSOVER_OPEN: 'true', PASSOVER_LOG_LEVEL: 'info' },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let told = ''
  for await (const chunk of child.stderr) {
    told += String(chunk)
    if (told.includes('audit service started')) return child
  }
  throw new Error(`the audit did not start: ${told}`)
}

async function killed(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit')
  child.kill('SIGKILL')
  await ended
  // It must have lived until then: a process that failed by itself shows nothing.
  expect(child.signalCode).toBe('SIGKILL')
}

async function everything(bus: Bus): Promise<{ sequence: number; subject: string; data: string; guarded: boolean }[]> {
  const found: Awaited<ReturnType<typeof everything>> = []
  const reader = await bus.follow({}, ({ sequence, subject, data, headers }) => {
    const guarded = headers.get('Nats-Expected-Last-Subject-Sequence') !== undefined
    found.push({ sequence, subject, data: Buffer.from(data).toString('base64'), guarded })
  })
  await reader.caughtUp
  await reader[Symbol.asyncDispose]()
  return found
}

/** Every whole segment holds exactly what the stream holds, and the chain runs through. Gives how many there are. */
async function expectArchived(bus: Bus): Promise<number> {
  const manifest = await Manifest.open(bus)
  const objects = await bus.objects(ARCHIVE_BUCKET)
  const stored = await everything(bus)
  const entries = await manifest.all()
  const whole = Math.floor((stored.length + 1) / SEGMENT_SIZE)
  expect(entries.map(({ k }) => k)).toEqual(Array.from({ length: whole }, (_, k) => k))
  const archived: { sequence: number; subject: string; data: string }[] = []
  for (const entry of entries) {
    for (const frame of await readSegment(objects, entry)) {
      if (frame.kind !== 'event') throw new Error('nothing was erased')
      const { sequence, subject, data } = frame.event
      archived.push({ sequence, subject, data: Buffer.from(data).toString('base64') })
    }
  }
  expect(archived).toEqual(stored.slice(0, archived.length).map(({ sequence, subject, data }) => ({ sequence, subject, data })))
  expect(archived.length).toBe(whole === 0 ? 0 : whole * SEGMENT_SIZE - 1)
  expect(await verifyChain(manifest, objects)).toMatchObject({ ok: true, segments: whole })
  return whole
}

async function expectSameAfterRebuild(fixture: AuditFixture): Promise<void> {
  const before = await fixture.recordBytes()
  const passes = new Set(
    (await everything(fixture.bus))
      .filter(({ subject }) => /^(work|return)\./.test(subject))
      .map(({ subject }) => subject.split('.').slice(1, 4).join('.')),
  )
  expect(before.size).toBe(passes.size)
  await fixture.deleteRecords()
  const rebuilding = await fixture.audit()
  await rebuilding.settled()
  const after = await fixture.recordBytes()
  expect(after.size).toBe(before.size)
  expect(after).toEqual(before)
}
