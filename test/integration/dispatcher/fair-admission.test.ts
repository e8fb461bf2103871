import { expect, test } from 'vitest'
import { CONTEXT, World } from '../../support/dispatcher/dispatcher.js'
import { until } from '../../support/processes/until.js'

const FLOOD = 8_000
const QUIET = 10
/** None of them comes to its limit. */
const SESSIONS = 50
/**
 * Before it comes what two dispatchers have in hand, and what they admit until they have read that it is there: 100 to 3,000 where flood and
 * dispatchers share a process. Without turns it is all that waits: more than 6,000.
 */
const MOST_BEFORE = FLOOD / 2
const PATIENT_MS = 120_000

/** Requests of one pair, `at_a_time` of them on their way at once; the sequence of each. */
async function store(world: World, many: { from: string; to: string; count: number; at_a_time: number }): Promise<number[]> {
  const { count, at_a_time, ...ask } = many
  const sequences: number[] = []
  let begun = 0
  const lane = async () => {
    while (begun < count) {
      begun += 1
      const work_context = { ...CONTEXT, session_id: `session ${begun % SESSIONS}` }
      const { key: _, ...message } = world.request({ ...ask, timeout_ms: 600_000, work_context })
      const outcome = await world.bus.publish(message)
      if (outcome.kind !== 'stored') throw new Error(outcome.kind)
      sequences.push(outcome.sequence)
    }
  }
  await Promise.all(Array.from({ length: at_a_time }, lane))
  return sequences
}

/** Of each pair, by the order in which their work steps were stored: the requests that they answer, and the steps' sequences. */
async function admitted(world: World): Promise<Map<string, { request: number; work: number }[]>> {
  const found = new Map<string, { request: number; work: number }[]>()
  const filters = [world.bus.subjects.all('work')]
  await using reader = await world.bus.follow({ filters, headers_only: true }, (_, fact) => {
    if (fact.type !== 'step') return
    const pair = `${fact.key.originator} ${fact.key.subagent}`
    const all = found.get(pair) ?? []
    all.push({ request: fact.request ?? 0, work: fact.sequence })
    found.set(pair, all)
  })
  await reader.caughtUp
  return found
}

test('what is asked for behind a flood of another pair is admitted before it, and each request once', async () => {
  await using world = await World.start({ dispatchers: [{}, {}] })
  for (const name of ['audit', 'scout']) await world.agent(name)
  const flooding = store(world, { from: 'mallory', to: 'audit', count: FLOOD, at_a_time: 2_000 })
  await until(() => world.dispatchers.some((one) => one.stats().open > 3_000), { what: 'a backlog stands', deadline_ms: PATIENT_MS })
  const quiet = await store(world, { from: 'alice', to: 'scout', count: QUIET, at_a_time: 1 })
  const flood = await flooding
  await world.untilAcknowledged(PATIENT_MS)

  const found = await admitted(world)
  const [ours = [], theirs = []] = [found.get('alice scout'), found.get('mallory audit')]
  expect(ours.map(({ request }) => request).sort((a, b) => a - b)).toEqual(quiet)
  expect(theirs).toHaveLength(FLOOD)
  expect(new Set(theirs.map(({ request }) => request))).toEqual(new Set(flood))
  const before = ours.map((one) => theirs.filter(({ work }) => work > one.request && work < one.work).length)
  expect(Math.max(...before), 'of the flood admitted between each quiet request and its work').toBeLessThan(MOST_BEFORE)
  expect(world.dispatchers.reduce((sum, one) => sum + one.stats().out_of_turn, 0)).toBeGreaterThanOrEqual(1)
}, 240_000)
