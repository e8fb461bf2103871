import { until } from '../processes/until.js'
import { type Bench, outcomeOf, quick, type Row, slow } from './row.js'

/** Fields that say how much: so many passes at a time, in a minute, in a session, and what a budget gives. */

/** Outcomes of so many passes one after the other; of those that did not complete with what the error says of the limit. */
async function inTurn(bench: Bench, times: number, session_id = `session of ${bench.to}`): Promise<unknown[]> {
  await using _worker = await bench.works(quick)
  const outcomes: unknown[] = []
  for (let n = 0; n < times; n += 1) {
    const pass = bench.ask({ work_context: { objective: `pass ${n}`, session_id } })
    outcomes.push(await pass.then(({ status }) => status, limitOf))
  }
  return outcomes
}

function limitOf(error: { code: string; context?: Record<string, unknown> }): string {
  return `${error.code} ${error.context?.scope}.${error.context?.field} ${error.context?.limit}`
}

/** Outcomes of two passes, the second of which is asked for while the first one runs. */
async function together(bench: Bench): Promise<unknown[]> {
  let finish: () => void = () => undefined
  const decided = new Promise<void>((resolve) => {
    finish = resolve
  })
  await using _worker = await bench.works(() => decided.then(() => 'done'))
  const first = outcomeOf(bench.ask())
  await until(async () => (await bench.all.world.bus.workload(bench.to)).some(({ running }) => running > 0), { what: 'it runs' })
  const asked = bench.ask()
  const second = asked.then(({ status }) => status, limitOf)
  await until(async () => (await bench.all.world.journal(bench.key(asked.id))).state !== 'none', { what: 'the second is decided' })
  finish()
  return [await first, await second]
}

export const LIMITS: Row[] = [
  {
    field: 'max_passes_per_minute',
    what: 'of the pair: the next one is E014',
    set: { pair: { max_passes_per_minute: 2 } },
    run: (bench) => inTurn(bench, 3),
    standard: ['completed', 'completed', 'completed'],
    changed: ['completed', 'completed', 'E014 pair.max_passes_per_minute 2'],
  },
  {
    field: 'max_passes_per_minute',
    what: 'of the subagent: the next one is E014',
    set: { subagent: { max_passes_per_minute: 1 } },
    run: (bench) => inTurn(bench, 2),
    standard: ['completed', 'completed'],
    changed: ['completed', 'E014 subagent.max_passes_per_minute 1'],
  },
  {
    field: 'max_active',
    what: 'one more than that at a time is E014',
    set: { subagent: { max_active: 1 } },
    run: together,
    standard: ['completed', 'completed'],
    changed: ['completed', 'E014 subagent.max_active 1'],
  },
  {
    field: 'max_open',
    what: 'of the pair: one more than that at a time is E014',
    set: { pair: { max_open: 1 } },
    run: together,
    standard: ['completed', 'completed'],
    changed: ['completed', 'E014 pair.max_open 1'],
  },
  {
    field: 'max_passes_per_session',
    what: 'the next one of the session is E014',
    set: { pair: { max_passes_per_session: 2 } },
    run: async (bench) => [...(await inTurn(bench, 3)), ...(await inTurn(bench, 1, `another of ${bench.to}`))],
    standard: ['completed', 'completed', 'completed', 'completed'],
    changed: ['completed', 'completed', 'E014 session.max_passes_per_session 2', 'completed'],
  },
  {
    field: 'max_held',
    what: 'of the originator: the next one that would wait for a person is E014',
    base: { pair: { hold_before_dispatch: true } },
    set: { pair: { max_held: 1 } },
    run: async (bench) => {
      const { world } = bench.all
      const hold = async () => {
        const pass = bench.ask({ timeout_ms: 20_000 })
        const ended = pass.then(
          ({ status }) => status,
          (error) => (error.code === 'E014' ? limitOf(error) : error.code),
        )
        await until(async () => (await world.journal(bench.key(pass.id))).state !== 'none', { what: 'it is decided' })
        return { pass, ended, held: (await world.journal(bench.key(pass.id))).state === 'held' }
      }
      // Of an earlier row a pass may have ended only just now.
      const first = await until(async () => [await hold()].find(({ held }) => held), { what: 'there is room for one' })
      const second = await hold()
      for (const { pass } of [first, second]) await pass.cancel()
      return [await first.ended, await second.ended]
    },
    standard: ['E043', 'E043'],
    changed: ['E043', 'E014 originator.max_held 1'],
  },
  {
    field: 'budget',
    what: 'passes: so many may begin below it, and the next one is E014',
    set: { pair: { budget: { passes: 1 } } },
    run: async (bench) => {
      const helper = await bench.all.agent(`helper-of-${bench.to}`)
      await using _below = await helper.onPass(quick)
      await using _worker = await bench.works(async (pass) => {
        const below = () => outcomeOf(pass.passOver({ subagent: helper.name, reason: 'below', work_context: { objective: 'do it' } }))
        return `${await below()} ${await below()}`
      })
      return (await bench.ask()).output
    },
    standard: 'completed completed',
    changed: 'completed E014',
  },
  {
    field: 'budget',
    what: 'tokens: a context of more is E012',
    set: { pair: { budget: { tokens: 100 } } },
    run: (bench) => bench.outcome(quick, { work_context: { objective: 'o', files: [{ path: 'a', content: 'x'.repeat(2_000) }] } }),
    standard: 'completed',
    changed: 'E012',
  },
  {
    field: 'budget',
    what: 'time: the deadline comes sooner (E010)',
    set: { pair: { budget: { time_ms: 400 } } },
    run: (bench) => bench.outcome(slow(1_500)),
    standard: 'completed',
    changed: 'E010',
  },
]
