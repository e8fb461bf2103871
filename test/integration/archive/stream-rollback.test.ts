import { cp, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Manifest, SEGMENT_SIZE } from '@passover/archive'
import type { AuditRunning } from '@passover/audit'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { fillTo } from '../../support/assertions/stream.js'
import { checkOf, untilReady } from '../../support/attacks/broken-topology.js'
import { type AuditFixture, auditFixture } from '../../support/fixtures/audit.js'
import { Erasable, storeOf } from '../../support/fixtures/erasure.js'
import { until } from '../../support/processes/until.js'

/** The stream as it was before, under a running audit: restored from an older copy of its files, or by a server that has less (decision 55). */
describe('audit: a stream that rolled back', () => {
  let fixture: AuditFixture
  let folder: string
  let older: string
  beforeEach(async () => {
    fixture = await auditFixture()
    const store = await storeOf(fixture.nats)
    folder = join(store, '$G', 'streams', 'PASSOVER')
    older = join(store, '..', 'older')
  })
  afterEach(() => fixture[Symbol.asyncDispose]())

  /** Does something with its files while the server is away. */
  const away = async (work: () => Promise<void>) => {
    const { nats, bus } = fixture
    await nats.node.stop()
    await work()
    await nats.node.restart()
    const answers = () => bus.bounds().catch(() => undefined)
    await until(answers, { what: 'the server answers again', deadline_ms: 60_000 })
  }
  const copy = () => away(() => cp(folder, older, { recursive: true }))
  const restore = () =>
    away(async () => {
      await rm(folder, { recursive: true })
      await rename(older, folder)
    })

  /** It may still be without a connection when others are not. */
  const settled = (audit: AuditRunning) =>
    until(() => audit.settled().then(() => true), { what: 'the audit has read all', deadline_ms: 60_000 })

  it('what is not sealed yet and what was said about custody is read anew, and health says what is lost', async () => {
    const { bus } = fixture
    const to = new Erasable(bus)
    const audit = await fixture.audit({ stores_ms: 200 })
    await fillTo(bus, 100)
    await copy()
    await fillTo(bus, 150)
    await to.says({ kind: 'hold', scope: { session: 'lost' }, reason: 'dispute' })
    await fillTo(bus, 200)
    await settled(audit)
    await restore()
    await until(() => checkOf(audit, 'reading').did, { what: 'it begins anew', deadline_ms: 60_000 })
    expect(checkOf(audit, 'reading').did?.what).toContain('it rolled back to sequence 100, although its messages 101 to 200 had been read')
    await to.says({ kind: 'hold', scope: { session: 'kept' }, reason: 'dispute' })
    await fillTo(bus, SEGMENT_SIZE)
    await untilReady([audit])
    await settled(audit)
    expect((await to.custody()).holds).toMatchObject([{ hold: 101, scope: { session: 'kept' } }])
    const sealed = await (await Manifest.open(bus)).entry(0)
    expect([sealed?.first, sealed?.last, sealed?.count]).toEqual([1, SEGMENT_SIZE - 1, SEGMENT_SIZE - 1])
  })

  it('nothing is archived over what was: it says so until the stream is restored, also when as much is stored again', async () => {
    const { bus } = fixture
    const audit = await fixture.audit({ stores_ms: 200 })
    await fillTo(bus, 100)
    await copy()
    await fillTo(bus, SEGMENT_SIZE + 10)
    await settled(audit)
    const manifest = await Manifest.open(bus)
    const before = await manifest.all()
    expect(before).toHaveLength(1)
    await restore()
    const says = (what: RegExp) =>
      until(() => what.test(checkOf(audit, 'reading').what ?? ''), { what: `it says ${what}`, deadline_ms: 60_000 })
    await says(/the archive contains sequence 4095, but the stream ends at 100: .* lost its newest messages/)
    expect(audit.health()).toMatchObject({ ready: false })
    await fillTo(bus, 2 * SEGMENT_SIZE)
    await says(/at sequence 4095, stream and archive have different messages: .* restore the stream/)
    await expect(fixture.audit()).rejects.toThrow(/stream and archive have different messages/)
    expect(await manifest.all()).toEqual(before)
  })
})
