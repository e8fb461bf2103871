import { randomBytes } from 'node:crypto'
import { startAudit } from '@passover/audit'
import { type Bus, encode, type Principal } from '@passover/bus'
import { startDispatcher } from '@passover/dispatcher'
import { startNotifier } from '@passover/notifier'
import { HEADER, inboxAnswer, type PassKey } from '@passover/schemas'
import type { Agent } from '@passover/sdk'
import { createAgent } from '@passover/sdk/internal'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Receiver } from '../../support/assertions/http-receiver.js'
import { registerAgent } from '../../support/builders/register.js'
import { clockOf, SILENT } from '../../support/dispatcher/dispatcher.js'
import { until } from '../../support/processes/until.js'
import { PERMITTED_MODES } from '../../support/servers/isolated.js'
import type { PermittedFixture } from '../../support/servers/permitted.js'

/** People, on a server that enforces who may do what: agents ask about their own and decide about nothing. */
const alice: Principal = { role: 'agent', name: 'alice', originates: true, subagent: false }
const judge: Principal = { role: 'agent', name: 'judge', originates: false, subagent: true }
const other: Principal = { role: 'agent', name: 'other', originates: true, subagent: false }
const maria: Principal = { role: 'person', name: 'maria' }

describe.each(PERMITTED_MODES)('with permissions enforced, $mode', ({ start }) => {
  let fixture: PermittedFixture
  let receiver: Receiver
  let agent: Agent
  let asking: { alice: Bus; other: Bus; maria: Bus }
  const opened: AsyncDisposable[] = []

  beforeAll(async () => {
    const services = [{ role: 'dispatcher' }, { role: 'audit' }, { role: 'notifier' }] as const
    fixture = await start([alice, judge, other, maria, ...services])
    receiver = await Receiver.start()
    const [dispatching, auditing, notifying] = [
      await fixture.bus(services[0]),
      await fixture.bus(services[1]),
      await fixture.bus(services[2]),
    ]
    const random = { bytes: (n: number) => randomBytes(n) }
    await dispatching.ensureTopology()
    const policy = { version: 1, document: { pairs: { 'alice->judge': { hold_before_dispatch: true } } } }
    const dispatcher = await startDispatcher({ bus: dispatching, clock: clockOf(dispatching), random, log: SILENT }, {
      registration: 'closed',
      policy,
    } as never)
    const audit = await startAudit({ bus: auditing, clock: clockOf(auditing), random, log: SILENT }, { people: ['maria'] })
    const webhook = { url: receiver.url, secret: 'a secret of this test' }
    const notifier = await startNotifier({ bus: notifying, clock: clockOf(notifying), log: SILENT }, webhook)
    asking = { alice: await fixture.bus(alice), other: await fixture.bus(other), maria: await fixture.bus(maria) }
    for (const { name, subagent } of [alice, judge, other] as { name: string; subagent: boolean }[]) {
      await registerAgent(asking.maria, { name, roles: { originates: 'always', subagent }, registered_by: 'maria', updated_at: 1 })
    }
    agent = createAgent({ bus: asking.alice, clock: clockOf(asking.alice), random }, { directory: '/p' })
    const judging = await fixture.bus(judge)
    const worker = createAgent({ bus: judging, clock: clockOf(judging), random }, { directory: '/p' })
    await worker.onPass(() => ({ status: 'partial', output: 'half' }))
    opened.push(agent, worker, { [Symbol.asyncDispose]: () => dispatcher.drain(1_000) }, audit, notifier, receiver)
  })
  afterAll(async () => {
    for (const one of opened) await one[Symbol.asyncDispose]()
    await fixture?.[Symbol.asyncDispose]()
  })

  const inbox = async (bus: Bus) => {
    const answer = inboxAnswer.safeParse(await bus.ask({ op: 'inbox' }, { timeout_ms: 30_000 }))
    return answer.success && answer.data.ok ? answer.data.items : []
  }
  const decide = (bus: Bus, of: { key: PassKey; item: string; digest: string }) =>
    bus.publish({
      subject: bus.subjects.decision(of.key, of.item, bus.identity),
      headers: { [HEADER.verdict]: 'approve', [HEADER.digest]: of.digest },
      data: encode({ v: 1, verdict: 'approve', digest: of.digest }),
    })

  it('a person sees and decides; an agent sees its own, and its approval is refused by the server', async () => {
    const handle = agent.passOver({ subagent: 'judge', reason: 'x', work_context: { objective: 'judge it' } })
    const key = { originator: 'alice', subagent: 'judge', id: handle.id }
    for (const item of ['dispatch', 'return'] as const) {
      const due = await until(async () => (await inbox(asking.maria)).find((one) => one.item === item), {
        what: `the ${item} waits`,
        deadline_ms: 60_000,
      })
      expect((await inbox(asking.alice)).map(({ id }) => id)).toEqual([handle.id])
      expect(await inbox(asking.other)).toEqual([])
      const own = await decide(asking.alice, { key, item, digest: due.digest })
      expect(own).toMatchObject({ kind: 'refused', reason: 'permission' })
      expect(await decide(asking.maria, { key, item, digest: due.digest })).toMatchObject({ kind: 'stored' })
    }
    expect(await handle).toMatchObject({ status: 'partial', output: 'half' })
    const told = await receiver.got(handle.id, 3)
    expect(told.map(({ notice }) => notice.event).sort()).toEqual(['approval', 'approval', 'return'])
    expect(await inbox(asking.maria)).toEqual([])
  })

  it('a malformed request becomes a dead letter that a person reads', async () => {
    const stored = await asking.alice.publish({ subject: asking.alice.subjects.request('judge', 'alice'), data: encode('no request') })
    const id = asking.alice.subjects.badId(stored.kind === 'stored' ? stored.sequence : 0)
    const read = async () => ((await asking.maria.ask({ op: 'dead_letter', id })) as { ok?: boolean } | undefined)?.ok
    await until(read, { what: 'it is kept' })
  })
})
