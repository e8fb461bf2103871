import { tmpdir } from 'node:os'
import { PASSES_BUCKET, storedRecord } from '@passover/audit'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { seenIn } from '../../simulation/checks/seen-in-stream.js'
import { wrongAnswers } from '../../support/assertions/answers-check.js'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { json } from '../../support/fixtures/cli.js'
import { startProcess, type TestProcess } from '../../support/processes/processes.js'
import { until } from '../../support/processes/until.js'

/** `PASSOVER_AUDIT_KILLS=100` for a longer look. */
const KILLS = Number(process.env.PASSOVER_AUDIT_KILLS ?? 2)

const MAIN = new URL('../../../services/audit/dist/main.js', import.meta.url)
const LANES = 16
/** What comes beyond that comes slowly: kills take long on a slow machine, and what is verified shall not grow with it. */
const MANY = 2_000
const PACE_MS = 200
const SEGMENT = 4_096
const START_MS = 120_000
/** A killed one lives for at most so long: passes are open when it dies, and have records. */
const LIFE_MS = 4_000

interface Verdict {
  ok: boolean
  faults: number
  counts: { passes: number; messages: number }
  index: { records: number; wrong: number }
}

let world: AgentWorld
const processes: TestProcess[] = []
beforeEach(async () => {
  world = await AgentWorld.start({ dispatchers: [{}], audit: false })
})
afterEach(async () => {
  for (const one of processes) await one[Symbol.asyncDispose]()
  await world[Symbol.asyncDispose]()
})

/** A process that reads, as it is run anywhere. */
async function audit(): Promise<TestProcess> {
  const env = { NATS_URL: world.world.nats.url, PASSOVER_LOG_LEVEL: 'info', PASSOVER_OPEN: 'true' }
  const started = startProcess(MAIN, { env, name: 'audit' })
  processes.push(started)
  await until(() => started.stderr.includes('audit service started') || !started.running, { what: 'it reads', deadline_ms: START_MS })
  expect([started.running, started.stderr]).toEqual([true, expect.any(String)])
  return started
}

/** How a pass of the load ends, and whether it is cancelled after so many ms. */
const LOADS = [
  { objective: 'look at it' },
  { objective: 'run out of time', timeout_ms: 4_000 },
  { objective: 'be cancelled while at work', cancel: 3_500 },
  { objective: 'be cancelled while held', override: { hold_before_dispatch: true }, cancel: 3_800 },
  { objective: 'stay held', override: { hold_before_dispatch: true } },
] as const
/** Nobody decides about these: they are open when all is compared. */
const STAYS_HELD = 4

// Fails where a segment is claimed before its object is stored, where a killed one's records are not written by the next, or where a restarted one takes what it
// has read of a pass so far for what the record says.
it(
  `two replicas of the audit killed ${KILLS} times while agents pass work over: verify finds that everything holds together, each pass has its record, and every filter and statistic says what the stream says`,
  async () => {
    const worker = await world.agent('audit')
    const untilAborted = (signal: AbortSignal) =>
      new Promise<string>((_, end) => signal.addEventListener('abort', () => end(new Error('aborted')), { once: true }))
    await worker.onPass((pass) => (pass.objective === LOADS[0].objective ? 'done' : untilAborted(pass.signal)), { concurrency: 2 * LANES })
    const alice = await world.agent('alice')
    const asked = new Map<string, { session: string; objective: string }>()
    let passing = true
    let passes = 0
    const begin = (kind: number) => {
      passes++
      const { objective, ...load } = { cancel: undefined, ...(LOADS[kind] ?? LOADS[0]) }
      const session = `session-${Math.floor(passes / 500)}`
      const { cancel, ...options } = load
      const handle = alice.passOver({ subagent: 'audit', reason: 'review', work_context: { objective, session_id: session }, ...options })
      asked.set(handle.id, { session, objective })
      return { handle, cancel }
    }
    const lane = async () => {
      while (passing || passes * 3 < SEGMENT + 100) {
        await begin(0).handle.result()
        if (passes > MANY) await new Promise((later) => setTimeout(later, PACE_MS))
      }
    }
    const slow = async (kind: number) => {
      while (passing) {
        const { handle, cancel } = begin(kind)
        const result = handle.result().catch(() => undefined)
        if (cancel === undefined && kind === STAYS_HELD) await new Promise((later) => setTimeout(later, 2_000))
        else if (cancel !== undefined) await new Promise((later) => setTimeout(later, cancel)).then(() => handle.cancel('as planned'))
        if (kind !== STAYS_HELD) await result
      }
    }
    const lanes = [...Array.from({ length: LANES }, lane), ...Array.from({ length: LANES }, (_, n) => slow(1 + (n % (LOADS.length - 1))))]
    let kills = 0
    const replica = async () => {
      while (kills++ < KILLS) {
        const one = await audit()
        await new Promise((later) => setTimeout(later, Math.random() * LIFE_MS))
        // It must have lived until then: a process that failed by itself shows nothing.
        expect(await one.kill()).toMatchObject({ signal: 'SIGKILL' })
      }
    }
    await Promise.all([replica(), replica()])
    const last = await audit()
    passing = false
    await Promise.all(lanes)

    const { bus } = world.world
    const records = await bus.table(PASSES_BUCKET, storedRecord)
    await until(async () => (await records.extent()).entries === passes, { what: 'each pass has its record', deadline_ms: START_MS })
    const wait = (ms: number) => new Promise<void>((later) => setTimeout(later, ms))
    expect(await wrongAnswers((question) => bus.ask(question, { timeout_ms: 30_000 }), await seenIn(bus, asked), wait)).toEqual([])
    const { code, document } = await json<Verdict>(['verify'], { cwd: tmpdir(), env: { NATS_URL: world.world.nats.url } })
    expect([code, document]).toMatchObject([0, { ok: true, faults: 0, counts: { passes }, index: { records: passes, wrong: 0 } }])
    expect((await (await bus.objects('archive')).list()).length).toBeGreaterThanOrEqual(2)
    expect(last.running).toBe(true)
  },
  240_000 + KILLS * 20_000,
)
