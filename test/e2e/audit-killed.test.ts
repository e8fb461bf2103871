import { tmpdir } from 'node:os'
import { PASSES_BUCKET, storedRecord } from '@passover/audit'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { AgentWorld } from '../support/agents.js'
import { startProcess, type TestProcess } from '../support/processes.js'
import { until } from '../support/until.js'
import { json } from './cli-harness.js'

/** `PASSOVER_AUDIT_KILLS=100` for a longer look. */
const KILLS = Number(process.env.PASSOVER_AUDIT_KILLS ?? 2)

const MAIN = new URL('../../services/audit/dist/main.js', import.meta.url)
const LANES = 16
/** What comes beyond that comes slowly: kills take long on a slow machine, and what is verified shall not grow with it. */
const MANY = 6_000
const PACE_MS = 200
const SEGMENT = 4_096
const START_MS = 120_000

interface Verdict {
  ok: boolean
  faults: number
  counts: { passes: number; messages: number }
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
  await until(() => started.stderr.includes('audit reads') || !started.running, { what: 'it reads', deadline_ms: START_MS })
  expect([started.running, started.stderr]).toEqual([true, expect.any(String)])
  return started
}

// Fails where a segment is claimed before its object is stored, or where a killed one's records are not written by the next.
it(
  `two replicas of the audit killed ${KILLS} times while agents pass work over: verify finds that everything holds together, and each pass has its record`,
  async () => {
    const worker = await world.agent('audit')
    await worker.onPass(() => 'done', { concurrency: LANES })
    const alice = await world.agent('alice')
    let passing = true
    let passes = 0
    const lane = async () => {
      while (passing || passes * 3 < SEGMENT + 100) {
        passes++
        const session_id = `session-${Math.floor(passes / 500)}`
        await alice.passOver({ subagent: 'audit', reason: 'review', work_context: { objective: 'look at it', session_id } })
        if (passes > MANY) await new Promise((later) => setTimeout(later, PACE_MS))
      }
    }
    const lanes = Array.from({ length: LANES }, lane)
    let kills = 0
    const replica = async () => {
      while (kills++ < KILLS) {
        const one = await audit()
        await new Promise((later) => setTimeout(later, Math.random() * 600))
        // It must have lived until then: a process that failed by itself shows nothing.
        expect(await one.kill()).toMatchObject({ signal: 'SIGKILL' })
      }
    }
    await Promise.all([replica(), replica()])
    passing = false
    await Promise.all(lanes)
    const last = await world.audit({ open: true })
    await last.settled()

    const { code, document } = await json<Verdict>(['verify'], { cwd: tmpdir(), env: { NATS_URL: world.world.nats.url } })
    expect([code, document]).toMatchObject([0, { ok: true, faults: 0, counts: { passes } }])
    expect((await (await world.world.bus.objects('archive')).list()).length).toBeGreaterThanOrEqual(2)
    const records = await world.world.bus.table(PASSES_BUCKET, storedRecord)
    expect((await records.extent()).entries).toBe(passes)
  },
  240_000 + KILLS * 20_000,
)
