import { SEGMENT_SIZE } from '@passover/archive'
import { startAudit } from '@passover/audit'
import { nodeRandom, openBus, type Principal } from '@passover/bus'
import { passAnswer } from '@passover/schemas'
import { expect, it } from 'vitest'
import { fillTo } from '../../support/assertions/stream.js'
import { registerAgent } from '../../support/builders/register.js'
import { clockOf, SILENT } from '../../support/dispatcher/dispatcher.js'
import { Erasable, MARKER, told } from '../../support/fixtures/erasure.js'
import { PERMITTED_MODES } from '../../support/servers/isolated.js'

const ALICE: Principal = { role: 'agent', name: 'alice', originates: true, subagent: false }
const MARIA: Principal = { role: 'person', name: 'maria' }
const CORA: Principal = { role: 'custodian', name: 'cora' }
const AUDIT: Principal = { role: 'audit' }

it.each(PERMITTED_MODES)(
  'where names are enforced a custodian has a session erased, and nobody else; the audit may do all that this takes, $mode',
  async ({ start }) => {
    await using fixture = await start([ALICE, MARIA, CORA, AUDIT])
    await using bus = await openBus({ servers: fixture.nats.servers, identity: 'passover', credentials: fixture.admin })
    await bus.ensureTopology()
    await bus.ensureAgent('alice', { subagent: false, max_attempts: 3, lease_ms: 5_000 })
    for (const name of ['alice', 'audit']) {
      await registerAgent(bus, { name, roles: { originates: 'always', subagent: true }, registered_by: 'maria', updated_at: 1 })
    }
    const to = new Erasable(bus)
    await to.fill('gone')
    const other = await to.story('stays').whole()
    await fillTo(bus, SEGMENT_SIZE)
    await to.fill('gone')

    const own = await fixture.bus(AUDIT)
    const settings = { id_window_ms: 1_000, people: ['cora', 'maria'], deletes: true }
    await using audit = await startAudit({ bus: own, clock: clockOf(own), random: nodeRandom, log: SILENT }, settings)
    await audit.settled()
    for (const who of [ALICE, MARIA] as { role: string; name: string }[]) {
      await using probe = await fixture.probe(who as Principal)
      expect(await probe.publish(`custody.${who.name}`)).toBe('refused')
    }
    await using probe = await fixture.probe(CORA)
    expect(await probe.publish('custody.passover')).toBe('refused')

    const erase = await new Erasable(await fixture.bus(CORA)).says({ kind: 'erase', session: 'gone', reason: 'asked for' }, 'cora')
    expect(await to.ended(erase)).toMatchObject({ state: 'done', by: 'cora', passes: 6, entries: 18, parts: 2 })
    expect(await told(bus, { session_id: 'gone', text: MARKER })).toEqual([])
    for (const part of to.alone) await expect(bus.parts.fetch(part)).rejects.toThrow('is missing')
    expect(passAnswer.parse(await bus.ask({ op: 'pass', ...other.key })).ok).toBe(true)
    expect(fixture.reported).toEqual([])
  },
  120_000,
)
