import { SEGMENT_SIZE } from '@passover/archive'
import { deletePass } from '@passover/audit'
import { createAgent } from '@passover/sdk/internal'
import { describe, expect, it } from 'vitest'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { clockOf, random } from '../../support/dispatcher/dispatcher.js'
import { until } from '../../support/processes/until.js'

/** Within it the pass is asked for and admitted, on a machine that others use too. */
const WINDOW_MS = 3_000
const work_context = { objective: 'count' }

describe('a pass that the stream has deleted', () => {
  it('is not run again when its old id is asked again: its result comes from the audit, another request gets E005', async () => {
    await using world = await AgentWorld.start({ dispatchers: [{ id_window_ms: WINDOW_MS }], audit: { id_window_ms: WINDOW_MS } })
    const { bus } = world.world
    const counter = await world.agent('counter')
    let runs = 0
    await using _worker = await counter.onPass(() => `run ${++runs}`)
    const plain = await world.agent('alice')
    const own = world.buses.get(plain)
    if (!own) throw new Error('no bus')
    await using alice = createAgent({ bus: own, clock: clockOf(own), random }, { directory: '/', sessionId: 's', idWindowMs: WINDOW_MS })
    const id = world.world.id()
    const ask = (reason: string) => alice.passOver({ subagent: 'counter', reason, work_context, id })
    expect((await ask('once')).output).toBe('run 1')
    // Only what is archived may be deleted: its segment is full.
    await Promise.all(Array.from({ length: SEGMENT_SIZE }, () => bus.publish({ subject: bus.subjects.acknowledged('alice') })))
    await new Promise((later) => setTimeout(later, 2 * WINDOW_MS + 500))
    const key = { originator: 'alice', subagent: 'counter', id }
    await world.audits[0]?.settled()
    await deletePass(bus, key, { rules: { id_window_ms: WINDOW_MS } })
    await until(async () => (await bus.journal.read(key)).length === 0, { what: 'its journal is deleted' })
    expect((await ask('once')).output).toBe('run 1')
    await expect(ask('twice')).rejects.toMatchObject({ code: 'E005' })
    expect(runs).toBe(1)
  })
})
