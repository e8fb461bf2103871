import { SEGMENT_SIZE } from '@passover/archive'
import { verifyLive } from '@passover/cli'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { fillTo } from '../../support/assertions/stream.js'
import { type AuditFixture, auditFixture } from '../../support/fixtures/audit.js'
import { ERASE_STEPS, Erasable, type EraseEdge, MARKER, storedAnywhere, told } from '../../support/fixtures/erasure.js'
import { startProcess } from '../../support/processes/processes.js'
import type { DyingEraser } from '../../support/roles/dying-eraser.js'

/** `PASSOVER_ERASE_KILLS=all`: every edge by itself. */
const ALL = process.env.PASSOVER_ERASE_KILLS === 'all'
const ROLE = new URL('../../dist/support/roles/dying-eraser.js', import.meta.url)
const SETTINGS = { id_window_ms: 1_000, open: true, compression: 'none' as const }
const SESSION = 'dies'
/** In the order in which one comes to them: each process goes on where the one before it died. */
const IN_TURN: EraseEdge[] = [
  { step: 'tombstone', side: 'after', n: 1 },
  { step: 'message', side: 'before', n: 5 },
]
const EACH = ERASE_STEPS.flatMap((step) =>
  (['before', 'after'] as const).map((side) => ({ where: `${side} the first ${step}`, edges: [{ step, side, n: 1 }] })),
)
const CASES: { where: string; edges: EraseEdge[] }[] = [{ where: 'at one edge after the other', edges: IN_TURN }, ...(ALL ? EACH : [])]

/** An audit is killed in the middle of an erasure (decision 100). */
describe('audit: erasure, killed', () => {
  let fixture: AuditFixture
  let to: Erasable
  beforeEach(async () => {
    fixture = await auditFixture()
    to = new Erasable(fixture.bus)
    await fixture.register('alice', 'audit')
    await fixture.bus.ensureAgent('alice', { subagent: false, max_attempts: 3, lease_ms: 5_000 })
  })
  afterEach(() => fixture[Symbol.asyncDispose]())

  /** But for what is a story's own: its digest is none. */
  const verified = async () => {
    const { shown, counts } = await verifyLive(fixture.bus, { id_window_ms: SETTINGS.id_window_ms })
    return { faults: shown.filter(({ rule }) => rule !== 'digest'), erased: counts.erased }
  }
  /** Until it kills itself there. */
  const killedAt = async (at: EraseEdge) => {
    const options: DyingEraser = { url: fixture.nats.url, settings: SETTINGS, at }
    await using dying = startProcess(ROLE, { args: [JSON.stringify(options)] })
    expect(await dying.exited).toMatchObject({ signal: 'SIGKILL' })
  }

  it.each(CASES)(
    '$where, and who comes next does all of it',
    async ({ edges }) => {
      const first = await fixture.audit({ ...SETTINGS, deletes: false })
      const shared = await to.large(`${MARKER} shared`, 'nothing secret')
      const other = await to.story('stays', { parts: shared }).whole()
      // In a segment that is sealed, and in one that is open.
      await to.fill(SESSION)
      await fillTo(fixture.bus, SEGMENT_SIZE)
      await to.fill(SESSION)
      await first.settled()
      const erase = await to.says({ kind: 'erase', session: SESSION, reason: 'asked for' })
      await first[Symbol.asyncDispose]()
      for (const at of edges) {
        await killedAt(at)
        expect({ at, faults: (await verified()).faults }).toEqual({ at, faults: [] })
      }

      await fixture.audit(SETTINGS)
      expect(await to.ended(erase)).toMatchObject({ state: 'done', passes: 6, entries: 18 })
      expect(await storedAnywhere(fixture, MARKER)).toEqual([])
      expect(await told(fixture.bus, { session_id: SESSION, text: MARKER })).toEqual([])
      expect(await verified()).toEqual({ faults: [], erased: 18 })
      for (const part of shared) await fixture.bus.parts.fetch(part)
      for (const part of to.alone) await expect(fixture.bus.parts.fetch(part)).rejects.toThrow('is missing')
      expect([...(await fixture.records()).values()].map(({ key }) => key.id)).toEqual([other.key.id])
    },
    180_000,
  )
})
