import type { Agent, Pass } from '@passover/sdk'
import { expect, test } from 'vitest'
import { AgentWorld } from '../support/dispatcher/agents.js'
import { until } from '../support/processes/until.js'

const LOW = 240
const HIGH = 120
/** Work of some length, so that there is always more waiting than running. */
const WORK_MS = 4

test.each([1, 2, 4])('high overtakes a backlog of low, and low still moves, %i at a time', async (concurrency) => {
  await using world = await AgentWorld.start({ audit: false })
  await world.world.agent('audit')
  const alice = await world.agent('alice')
  await ask(alice, 'low', LOW)
  await ask(alice, 'high', HIGH)
  await waiting(world, LOW + HIGH)

  const begun = await worked(await world.agent('audit'), { concurrency, passes: LOW + HIGH })
  const ranks = (priority: string) => begun.flatMap((one, rank) => (one === priority ? [rank] : []))
  // All of high was asked for after all of low, and is at work long before it.
  expect(median(ranks('high')) * 2.5).toBeLessThan(median(ranks('low')))
  // While high was there low had its turn too: one in nine by weight, and half of that is asked for.
  const meanwhile = begun.slice(0, begun.lastIndexOf('high'))
  const lows = meanwhile.filter((one) => one === 'low').length
  expect(lows).toBeGreaterThanOrEqual(HIGH / 8 / 2)
  expect(longestWithout(meanwhile, 'low')).toBeLessThanOrEqual(9 * 4)
})

test.each([1, 4])('low moves on while high keeps coming, %i at a time', async (concurrency) => {
  await using world = await AgentWorld.start({ audit: false })
  await world.world.agent('audit')
  const alice = await world.agent('alice')
  await ask(alice, 'low', LOW)
  /** Enough to last while others have the processors and what is asked for anew is not admitted yet. */
  const KEPT = 40
  await ask(alice, 'high', KEPT)
  await waiting(world, LOW + KEPT)

  // For each of high that begins another one is asked for: there are always some waiting.
  let asked = KEPT
  const onBegin = (priority: string) => {
    if (priority !== 'high' || asked === HIGH) return
    asked += 1
    void ask(alice, 'high', 1)
  }
  const begun = await worked(await world.agent('audit'), { concurrency, passes: LOW + HIGH, onBegin, work_ms: WORK_MS * concurrency })
  const meanwhile = begun.slice(0, begun.lastIndexOf('high'))
  const lows = meanwhile.filter((one) => one === 'low').length
  expect(lows).toBeGreaterThanOrEqual(HIGH / 8 / 2)
  // High kept the lead: the last of it began when most of low was still waiting.
  expect(lows).toBeLessThan(LOW / 4)
})

test('a high one that comes when only low is waiting begins next but few', async () => {
  await using world = await AgentWorld.start({ audit: false })
  await world.world.agent('audit')
  const alice = await world.agent('alice')
  await ask(alice, 'low', LOW)
  await waiting(world, LOW)

  // Asked for one at a time, each in the middle of low: how many of low began between its being ready and its beginning?
  const overtaken: number[] = []
  let lows = 0
  let readyAt: number | undefined
  const onBegin = (priority: string) => {
    if (priority === 'low') lows += 1
    if (priority === 'high' && readyAt !== undefined) {
      overtaken.push(lows - readyAt)
      readyAt = undefined
    }
  }
  const working = worked(await world.agent('audit'), { concurrency: 2, passes: LOW + 10, onBegin, work_ms: 12 })
  for (let n = 1; n <= 10; n += 1) {
    await until(() => lows >= n * 15, { what: `low one ${n * 15} began`, every_ms: 1 })
    readyAt = lows
    await ask(alice, 'high', 1)
    await until(() => readyAt === undefined, { what: `high one ${n} began`, every_ms: 1 })
  }
  await working
  // Two at a time and two held in hand; the rest is the way through the dispatcher. Without priorities over 90 would be before it.
  expect(median(overtaken)).toBeLessThan(15)
})

/** Asks, and waits until the stream has all; nobody waits for their returns. */
async function ask(agent: Agent, priority: 'high' | 'low', count: number): Promise<void> {
  const options = { subagent: 'audit', reason: 'r', work_context: { objective: priority }, return_required: false, timeout_ms: 300_000 }
  await Promise.all(Array.from({ length: count }, () => agent.passOver({ ...options, priority }).stored))
}

/** So much work is admitted and waits for a worker. */
async function waiting({ world }: AgentWorld, count: number): Promise<void> {
  await until(
    async () => {
      const loads = await world.bus.workload('audit')
      return loads.reduce((sum, { queued }) => sum + queued, 0) === count
    },
    { what: `${count} passes wait`, deadline_ms: 120_000 },
  )
}

/** Works until so many passes are done; the priorities in the order in which they began. */
async function worked(
  agent: Agent,
  options: { concurrency: number; passes: number; onBegin?: (priority: string) => void; work_ms?: number },
): Promise<string[]> {
  const begun: string[] = []
  const handler = async (pass: Pass) => {
    begun.push(pass.priority)
    options.onBegin?.(pass.priority)
    await new Promise((over) => setTimeout(over, options.work_ms ?? WORK_MS))
    return 'done'
  }
  await using worker = await agent.onPass(handler, { concurrency: options.concurrency })
  await until(() => begun.length >= options.passes, { what: `${options.passes} began`, deadline_ms: 180_000 })
  await worker.drain()
  return begun
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
}

/** The longest run of others. */
function longestWithout(sequence: readonly string[], wanted: string): number {
  let longest = 0
  let now = 0
  for (const one of sequence) {
    now = one === wanted ? 0 : now + 1
    longest = Math.max(longest, now)
  }
  return longest
}
