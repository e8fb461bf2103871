import type { AgentPairOverride } from '@passover/schemas'
import { until } from '../until.js'
import { type Bench, outcomeOf, quick, type Row, slow } from './row.js'

/** Fields that decide whether and when a pass begins, and what goes along. */

const FILES = [{ path: 'a.ts', content: 'let a = 1' }]
const MESSAGES = [{ id: 'm1', role: 'user' as const, parts: [{ id: 'p1', type: 'text' as const, text: 'hello' }], timestamp: 1 }]
const HOLD = { pair: { hold_before_dispatch: true } }

/** What the handler is given of a context with a file and a message. */
async function given(bench: Bench): Promise<unknown> {
  let seen: unknown
  await bench.outcome(
    (pass) => {
      const { files, messages } = pass.context
      seen = { contents: files.map(({ content }) => content ?? null), messages: messages.map(({ id }) => id) }
      return 'seen'
    },
    { work_context: { objective: 'look', files: FILES, messages: MESSAGES } },
  )
  return seen
}

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

const widened = (override: AgentPairOverride) => (bench: Bench) => bench.outcome(quick, { override })

/** A held pass about which pat, who may or may not approve, says yes. */
async function approvedByPat(bench: Bench): Promise<string> {
  const { world } = bench.all
  await using _worker = await bench.works(quick)
  const pass = bench.ask({ timeout_ms: 20_000 })
  const held = await world.state(bench.key(pass.id), 'held')
  const digest = held.state === 'held' ? held.held.digest : undefined
  await world.decide(bench.key(pass.id), { person: 'pat', digest: digest ?? '' })
  const settled = pass.then(({ status }) => status)
  settled.catch(() => undefined)
  await world.untilAcknowledged()
  const state = (await world.journal(bench.key(pass.id))).state
  if (state !== 'held') return await settled
  await pass.cancel()
  return 'still held'
}

/** What became of a pass that the subagent makes itself, below alice's. */
async function below(bench: Bench, more: object = {}): Promise<string> {
  const relay = await bench.all.agent(`relay-of-${bench.to}`)
  await using _above = await relay.onPass(async (pass) =>
    outcomeOf(pass.passOver({ subagent: bench.to, reason: 'below', work_context: { objective: 'do it' }, ...more })),
  )
  await using _worker = await bench.works(quick)
  return String((await bench.alice.passOver({ subagent: relay.name, reason: 'above', work_context: { objective: 'pass it on' } })).output)
}

export const ADMISSION: Row[] = [
  {
    field: 'enabled',
    what: 'false: E004, nothing runs',
    set: { pair: { enabled: false } },
    run: (bench) => bench.outcome(quick),
    standard: 'completed',
    changed: 'E004',
  },
  {
    field: 'reason',
    what: 'is told with E004',
    base: { pair: { enabled: false } },
    set: { pair: { reason: 'on leave until May' } },
    run: async (bench) => {
      const error: unknown = await bench.ask().catch((thrown: unknown) => thrown)
      return error instanceof Error && error.message.includes('on leave until May')
    },
    standard: false,
    changed: true,
  },
  {
    field: 'can_receive_passes',
    what: 'false: E001 for everybody',
    set: { subagent: { can_receive_passes: false } },
    run: (bench) => bench.outcome(quick),
    standard: 'completed',
    changed: 'E001',
  },
  {
    field: 'hold_before_dispatch',
    what: 'true: a person is waited for, and no handler runs',
    set: HOLD,
    run: async (bench) => {
      let ran = false
      await using _worker = await bench.works(() => {
        ran = true
        return 'done'
      })
      const pass = bench.ask()
      const ended = outcomeOf(pass)
      await until(async () => (await bench.all.world.journal(bench.key(pass.id))).state !== 'none', { what: 'it began' })
      if ((await bench.all.world.journal(bench.key(pass.id))).state === 'held') await pass.cancel()
      return { ended: await ended, ran }
    },
    standard: { ended: 'completed', ran: true },
    changed: { ended: 'E043', ran: false },
  },
  {
    field: 'approval_expires_ms',
    what: 'nobody decides in time: E013, expired',
    base: HOLD,
    set: { pair: { approval_expires_ms: 300 } },
    run: async (bench) => {
      const pass = bench.ask({ timeout_ms: 20_000 })
      const ended = pass.then(
        ({ status }) => status,
        (error) => `${error.code} ${error.context?.approval}`,
      )
      const first = await Promise.race([ended, new Promise((late) => setTimeout(late, 6_000, 'still held'))])
      if (first === 'still held') await pass.cancel()
      await ended
      return first
    },
    standard: 'still held',
    changed: 'E013 expired',
  },
  {
    field: 'timeout_ms',
    what: 'the deadline of the whole pass: E010',
    set: { pair: { timeout_ms: 400 } },
    run: (bench) => bench.outcome(slow(1_500)),
    standard: 'completed',
    changed: 'E010',
  },
  {
    field: 'max_chain_depth',
    what: '1: it takes no passes from below others (E002)',
    set: { subagent: { max_chain_depth: 1 } },
    run: (bench) => below(bench),
    standard: 'completed',
    changed: 'E002',
  },
  {
    field: 'pass_context',
    what: 'false: no messages travel',
    set: { pair: { pass_context: false } },
    run: given,
    standard: { contents: ['let a = 1'], messages: ['m1'] },
    changed: { contents: ['let a = 1'], messages: [] },
  },
  {
    field: 'pass_files',
    what: 'false: no contents travel',
    set: { pair: { pass_files: false } },
    run: given,
    standard: { contents: ['let a = 1'], messages: ['m1'] },
    changed: { contents: [null], messages: ['m1'] },
  },
  {
    field: 'max_context_size_bytes',
    what: 'more than that is E012',
    set: { pair: { max_context_size_bytes: 1_000 } },
    run: (bench) => bench.outcome(quick, { work_context: { objective: 'o', files: [{ path: 'a', content: 'x'.repeat(2_000) }] } }),
    standard: 'completed',
    changed: 'E012',
  },
  {
    field: 'allow_widening',
    what: 'names what an override may widen',
    base: { pair: { pass_files: false } },
    set: { pair: { allow_widening: ['pass_files'] } },
    run: widened({ pass_files: true }),
    standard: 'E013',
    changed: 'completed',
  },
  {
    field: 'allow_widening',
    what: 'left out of it, what is allowed by default is not',
    set: { pair: { allow_widening: [] } },
    run: widened({ timeout_ms: 60_000 }),
    standard: 'completed',
    changed: 'E013',
  },
  {
    field: 'approvers',
    what: 'the yes of somebody else does not count',
    base: HOLD,
    set: { pair: { approvers: ['olga'] } },
    run: approvedByPat,
    standard: 'completed',
    changed: 'still held',
  },
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
    run: async (bench) => {
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
    },
    standard: ['completed', 'completed'],
    changed: ['completed', 'E014 subagent.max_active 1'],
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

/** Of the whole system: what `defaults` say. */
export const GLOBAL: Row[] = [
  {
    field: 'max_timeout_ms',
    what: 'nothing has longer, whatever pair or request say',
    set: { defaults: { max_timeout_ms: 1_200 } },
    run: async (bench) => [await bench.outcome(slow(3_000)), await bench.outcome(quick, { override: { timeout_ms: 20_000 } })],
    standard: ['completed', 'completed'],
    changed: ['E010', 'E013'],
  },
]
