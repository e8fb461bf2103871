import { randomBytes } from 'node:crypto'
import { encode, PolicyStore, type Principal } from '@passover/bus'
import { startDispatcher } from '@passover/dispatcher'
import { passOverPreferences, policyDigest } from '@passover/schemas'
import { expect, test } from 'vitest'
import { clockOf, SILENT } from '../../support/dispatcher/dispatcher.js'
import { until } from '../../support/processes/until.js'
import { PERMITTED_MODES } from '../../support/servers/isolated.js'

const MARIA: Principal = { role: 'person', name: 'maria' }
const JONAS: Principal = { role: 'person', name: 'jonas' }
const AUDIT: Principal = { role: 'agent', name: 'audit', originates: true, subagent: true }
const DISPATCHER: Principal = { role: 'dispatcher' }

test.each(PERMITTED_MODES)(
  'on a server that enforces names, persons do everything with the policy, dispatchers follow and mend, agents nothing, $mode',
  async ({ start }) => {
    await using permitted = await start([MARIA, JONAS, AUDIT, DISPATCHER])
    const system = await permitted.bus(DISPATCHER)
    await system.ensureTopology()
    await using _ = await startDispatcher({ bus: system, clock: clockOf(system), random: { bytes: (n) => randomBytes(n) }, log: SILENT })
    const maria = await PolicyStore.open(await permitted.bus(MARIA))
    const jonas = await PolicyStore.open(await permitted.bus(JONAS))
    const document = passOverPreferences.parse({ pairs: { 'alice->audit': { enabled: false } } })
    expect(await maria.publish({ document, base: 0 })).toMatchObject({ kind: 'published', value: { version: 1, by: 'maria' } })
    expect(await jonas.publish({ document: {}, base: 0 })).toMatchObject({ kind: 'lost', value: { by: 'maria' } })
    expect(await jonas.publish({ document: {}, base: 1 })).toMatchObject({ kind: 'published', value: { version: 2, by: 'jonas' } })
    expect((await maria.versions()).map(({ version }) => version)).toEqual([2, 1])

    const bus = await permitted.bus(MARIA)
    const body = { v: 1, version: 3, base: 2, document, digest: policyDigest(document) }
    expect(await bus.publish({ subject: bus.subjects.policy('maria'), data: encode(body) })).toMatchObject({ kind: 'stored' })
    await until(
      async () => {
        const stand = await jonas.stand()
        return stand.kind === 'valid' && stand.value.version === 3
      },
      { what: 'the dispatcher puts it into force' },
    )

    await using probe = await permitted.probe(AUDIT)
    for (const subject of ['policy.audit', 'policy.maria', '$KV.policy.current', '$KV.policy.version.9']) {
      expect(await probe.publish(subject), subject).toBe('refused')
    }
    await using person = await permitted.probe(MARIA)
    expect(await person.publish('policy.jonas')).toBe('refused')
  },
)
