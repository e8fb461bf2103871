import { type Bus, encode } from '@passover/bus'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { fillTo } from '../../support/assertions/stream.js'
import { rawArchive, rawMessages } from '../../support/builders/raw-archive.js'
import { registerAgent } from '../../support/builders/register.js'
import { Story } from '../../support/builders/story.js'
import { type AuditFixture, auditFixture, replaced } from '../../support/fixtures/audit.js'
import { startProcess, type TestProcess } from '../../support/processes/processes.js'
import { until } from '../../support/processes/until.js'
import type { DyingAudit, DyingPoint } from '../../support/roles/dying-audit.js'

/** `PASSOVER_DELETER_KILLS=20 PASSOVER_DELETER_SEED=7` runs it for longer, or again. The seed is in the title. */
const KILLS = Number(process.env.PASSOVER_DELETER_KILLS ?? 2)
const SEED = Number(process.env.PASSOVER_DELETER_SEED ?? Date.now() % 1_000_000)

const SEGMENT = 4_096
const ROLE = new URL('../../dist/support/roles/dying-audit.js', import.meta.url)
const SETTINGS = { id_window_ms: 1_000, delete_lease_ms: 1_000, open: true }
/** How often it may have come there at most when it ends. */
const POINTS: [DyingPoint, number][] = [
  ['delete', 2_000],
  ['stated', 3],
  ['deleted', 2_000],
  ['leave', 2],
  ['claimed', 2],
  ['state', 3],
  ['read', 6],
  ['left', 2],
  ['claim', 2],
  ['stored', 4],
]
/** Kinds of messages that stay in the stream: registrations, and announcements of what leaves the archive. */
const FOR_GOOD: ReadonlySet<string> = new Set(['agent', 'custody'])
const TELLERS = 8
const FILL = 40
/** Passes come no faster than they can go: what is stored meanwhile shall not grow with how slow a machine is. */
const MOST_AHEAD = 6 * SEGMENT
const DEADLINE_MS = 240_000

/** The deleter where audits end in the middle of it: what must stay stays, all else goes, and the archive has every message once (docs/architecture/invariants.md#rule-4). */
describe('audit: the deleter, killed', () => {
  let fixture: AuditFixture
  const processes: TestProcess[] = []
  beforeEach(async () => {
    fixture = await auditFixture()
    await fixture.register('alice', 'audit', 'scout')
    const roles = { originates: 'always' as const, subagent: false }
    await registerAgent(fixture.bus, { name: 'away', roles, durable_returns: { from: 1 }, registered_by: 'maria', updated_at: 1 })
  })
  afterEach(async () => {
    for (const one of processes) await one[Symbol.asyncDispose]()
    await fixture[Symbol.asyncDispose]()
  })

  const start = async (at?: DyingAudit['at']) => {
    const options: DyingAudit = { url: fixture.nats.url, settings: SETTINGS, ...(at ? { at } : {}) }
    const started = startProcess(ROLE, { args: [JSON.stringify(options)] })
    processes.push(started)
    // It may come to where it ends before it can say so.
    await Promise.race([started.heard('reads', DEADLINE_MS), started.exited])
    return started
  }
  const doneTo = async () => {
    const table = await fixture.bus.table('archive', z.unknown())
    const found = (await table.get('retention.state'))?.value as { retention: { next: number } } | undefined
    return found?.retention.next ?? 0
  }
  /** Fills what is begun, and one more, and waits until all of it is done with; the first sequence after it. */
  const untilDone = async () => {
    const k = Math.floor((await fixture.bus.bounds()).last / SEGMENT) + 2
    await fillTo(fixture.bus, k * SEGMENT + 1)
    await until(async () => (await doneTo()) >= k, { what: `segments before ${k} are done with`, deadline_ms: DEADLINE_MS, every_ms: 200 })
    return k * SEGMENT
  }

  it(
    `keeps what must stay, deletes the rest and archives everything while two replicas are killed ${KILLS} times (seed ${SEED})`,
    async () => {
      const dice = diceOf(SEED)
      const told = new Told(fixture.bus)
      let telling = true
      const pace = async () => {
        while (telling && (await fixture.bus.bounds()).last - (await doneTo()) * SEGMENT > MOST_AHEAD) await pause(200)
        return telling
      }
      const tellers = Array.from({ length: TELLERS }, () => told.tell(pace))
      let deaths = 0
      const replica = async () => {
        while (deaths < KILLS) {
          const [point, most] = POINTS[Math.floor(dice() * POINTS.length)] ?? ['delete', 1]
          const dying = await start({ point, n: 1 + Math.floor(dice() * most) })
          await Promise.race([dying.exited, until(() => deaths >= KILLS, { what: 'all deaths', deadline_ms: DEADLINE_MS * 10 })])
          if (!dying.running) expect(await dying.exited).toMatchObject({ signal: 'SIGKILL' })
          if (!dying.running) deaths++
          await dying.kill()
        }
        await start()
      }
      await Promise.all([replica(), replica()])
      telling = false
      await Promise.all(tellers)

      const done = await untilDone()
      const remaining = async (before: number) =>
        (await rawMessages(fixture.nats.url, 'PASSOVER')).filter(
          ({ sequence, subject }) => sequence < before && !FOR_GOOD.has(fixture.bus.subjects.parse(subject).kind),
        )
      const staying = new Set(told.staying())
      const stayed = await remaining(done)
      expect(stayed.filter(({ sequence }) => !staying.has(sequence)).map(({ sequence, subject }) => `${sequence} ${subject}`)).toEqual([])
      expect(stayed.length).toBe(staying.size)
      await told.settle()
      const end = await untilDone()
      await until(async () => (await remaining(end)).length === 0, { what: 'all is gone', deadline_ms: DEADLINE_MS, every_ms: 500 })

      const archived = await rawArchive(fixture.nats.url)
      expect(archived.length).toBeGreaterThanOrEqual(end - 1)
      for (const [sequence, { subject, data }] of told.stored) {
        const found = archived[sequence - 1]
        if (found?.subject !== subject || Buffer.compare(found.data, data) !== 0)
          throw new Error(`${sequence} is archived as something else`)
      }
    },
    DEADLINE_MS * 3 + KILLS * 30_000,
  )
})

const pause = (ms: number) => new Promise((later) => setTimeout(later, ms))

/** Lives of passes of every kind, and what was stored of them. */
class Told {
  readonly stored = new Map<number, { subject: string; data: Uint8Array }>()
  private readonly open: { pass: Story; settle: () => Promise<unknown> }[] = []
  private count = 0
  private readonly bus: Bus

  constructor(plain: Bus) {
    this.bus = replaced(plain, {
      publish: async (message: Parameters<Bus['publish']>[0]) => {
        const outcome = await plain.publish(message)
        if (outcome.kind === 'stored')
          this.stored.set(outcome.sequence, { subject: message.subject, data: message.data ?? new Uint8Array() })
        return outcome
      },
    })
  }

  /** Sequences of what must stay. */
  staying(): number[] {
    return this.open.flatMap(({ pass }) => pass.sequences).sort((a, b) => a - b)
  }

  async tell(goesOn: () => Promise<boolean>): Promise<void> {
    while (await goesOn()) {
      await this.one(this.count++)
      await Promise.all(
        Array.from({ length: FILL }, () => this.bus.publish({ subject: this.bus.subjects.acknowledged('nobody'), data: encode(0) })),
      )
    }
  }

  /** What was open ends, what was away hears, what was dead is settled. */
  async settle(): Promise<void> {
    const open = [...this.open]
    const some = async () => {
      for (let one = open.pop(); one; one = open.pop()) await one.settle()
    }
    await Promise.all(Array.from({ length: TELLERS }, some))
  }

  private async one(n: number): Promise<void> {
    const { bus } = this
    const id = `told-pass-${String(n).padStart(6, '0')}`
    const pass = new Story(bus, id, { originator: n % 10 === 2 ? 'away' : 'alice', subagent: n % 3 === 0 ? 'audit' : 'scout' })
    await pass.request()
    if (n % 10 === 1) {
      await pass.held(3_600_000)
      this.open.push({ pass, settle: () => pass.ends({ code: 'E013', message: 'nobody approved' }) })
      return
    }
    await pass.work()
    if (n % 7 === 0) await pass.fence(2)
    const attempt = n % 7 === 0 ? 2 : 1
    if (n % 10 === 0) return void this.open.push({ pass, settle: () => pass.returns({}, { attempt }) })
    if (n % 10 === 3) {
      await pass.event('dead_letter', 'passover', { what: 'work', dead_sequence: 1, error: { code: 'E011', message: 'lost' } })
      await pass.ends({ code: 'E011', message: 'lost' })
      this.open.push({ pass, settle: () => pass.event('settled', 'maria', { action: 'drop' }) })
      return
    }
    const returned = await pass.returns({}, { attempt })
    if (n % 10 === 2) {
      const data = encode({ v: 1, returns: [returned] })
      this.open.push({ pass, settle: () => bus.publish({ subject: bus.subjects.acknowledged('away'), data }) })
    }
    if (n % 10 === 5) await pass.applied()
  }
}

/** Numbers below 1, the same for the same seed. */
function diceOf(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}
