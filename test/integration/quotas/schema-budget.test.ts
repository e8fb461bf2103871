import { startAudit } from '@passover/audit'
import { openBus } from '@passover/bus'
import { startDispatcher } from '@passover/dispatcher'
import { askList, findPass } from '@passover/operator'
import type { PassRow } from '@passover/schemas'
import { createAgent } from '@passover/sdk/internal'
import { outputSchemas } from '@passover/validation'
import { expect, it } from 'vitest'
import { clockOf, random, SILENT } from '../../support/dispatcher/dispatcher.js'
import { until } from '../../support/processes/until.js'
import { natsFixture } from '../../support/servers/nats.js'

/** Doubles its time with each further character. */
const CATASTROPHIC = { properties: { output: { type: 'string', pattern: '^(a+)+$' } } }
const RESULTS = 120

it('goes on projecting when an agent’s schema is catastrophic, and marks its results as unchecked', async () => {
  await using nats = await natsFixture()
  const busOf = (identity: string) => openBus({ servers: nats.servers, identity })
  const agentOf = async (name: string) => {
    const bus = await busOf(name)
    return createAgent({ bus, clock: clockOf(bus), random }, { directory: '/p' })
  }
  await using bus = await busOf('passover')
  await bus.ensureTopology()
  const deps = { bus, clock: clockOf(bus), random, log: SILENT }
  await using auditBus = await busOf('passover')
  await using dispatcher = await startDispatcher(deps, {})
  const schemas = outputSchemas({ timeout_ms: 300, budget: { owner_ms: 1_500, total_ms: 30_000, window_ms: 600_000 } })
  await using audit = await startAudit({ ...deps, bus: auditBus, clock: clockOf(auditBus), schemas }, { open: true })
  await using alice = await agentOf('alice')
  await using evil = await agentOf('evil')
  await using good = await agentOf('good')
  await using _e = await evil.onPass(() => Promise.resolve(`${'a'.repeat(30)}!`), { concurrency: 64, outputSchema: CATASTROPHIC })
  await using _g = await good.onPass(() => Promise.resolve('fine'), { outputSchema: { properties: { output: { minLength: 10 } } } })
  const work_context = { objective: 'x' }
  const passes = Array.from({ length: RESULTS }, () =>
    alice.passOver({ subagent: 'evil', reason: 'r', work_context, return_required: false }),
  )
  await Promise.all(passes.map(({ stored }) => stored))
  const checked = alice.passOver({ subagent: 'good', reason: 'r', work_context })
  await checked.result().catch(() => undefined)
  await audit.settled()
  const { last } = await bus.bounds()
  expect(audit.stats()).toMatchObject({ position: last })
  await using person = await busOf('maria')
  const rows = async (): Promise<PassRow[]> => (await askList(person, { subagent: 'evil', limit: 1_000 })).passes
  await until(async () => (await rows()).every(({ ended_at }) => ended_at !== undefined), { what: 'all passes in the records' })
  // Those that were checked took the budget, 300 ms each.
  const unchecked = (await rows()).filter(({ code }) => code === undefined)
  expect(unchecked.length).toBeGreaterThan(RESULTS - 10)
  expect(unchecked.length).toBeLessThan(RESULTS)
  expect(audit.stats().schema_unchecked).toBeGreaterThanOrEqual(unchecked.length)
  const shown = await findPass(person, { id: unchecked[0]?.id ?? '' }, {})
  expect(shown.record?.output_unchecked).toContain('not checked: the output_schema of evil used its 1.5 s of checking time')
  expect((await findPass(person, { id: checked.id }, {})).row.code).toBe('E021')
  void dispatcher
})
