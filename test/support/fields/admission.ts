import type { AgentPairOverride } from '@passover/schemas'
import { until } from '../processes/until.js'
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
