import { readFile } from 'node:fs/promises'
import { type Principal, permissionTable } from '@passover/bus'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isolatedFixture } from '../../support/servers/isolated.js'
import { type PermittedFixture, type Probe, permittedFixture } from '../../support/servers/permitted.js'

/**
 * The server enforces what permissions.ts generates: each row is tried on a real one. `alice` only originates, `audit` does both,
 * `mallory` is another agent, `bob` a person.
 */

const alice: Principal = { role: 'agent', name: 'alice', originates: true, subagent: false }
const audit: Principal = { role: 'agent', name: 'audit', originates: true, subagent: true }
const mallory: Principal = { role: 'agent', name: 'mallory', originates: true, subagent: true }
const bob: Principal = { role: 'person', name: 'bob' }
const dispatcher: Principal = { role: 'dispatcher' }
const auditor: Principal = { role: 'audit' }
const WHO = { alice, audit, mallory, bob, dispatcher, auditor }
type Who = keyof typeof WHO

const ID = '0abcdefg0abcdefgh_ABCDEFGHIJKLMN'
const HASH = 'a'.repeat(64)
const API = '$JS.API'

type Row = [who: Who, does: 'publish' | 'subscribe', subject: string, why: string]

const ALLOWED: Row[] = [
  ['alice', 'publish', 'request.audit.alice', 'passes over'],
  ['alice', 'publish', `event.alice.audit.${ID}.cancel.alice`, 'cancels its pass'],
  ['alice', 'publish', `event.alice.audit.${ID}.applied.alice`, 'says what it applied'],
  ['alice', 'publish', 'acknowledged.alice', 'acknowledges returns'],
  ['alice', 'publish', 'ask.alice', 'asks'],
  ['alice', 'publish', `${API}.CONSUMER.MSG.NEXT.PASSOVER.returns_alice`, 'takes the returns that waited for it'],
  ['alice', 'publish', '$JS.ACK.PASSOVER.returns_alice.1.2.3.4.5', 'is done with a return that waited'],
  ['alice', 'publish', `returned.alice.0abcdefg.${ID.slice(8)}.audit.alice`, 'asks its other processes whether they wait'],
  ['alice', 'publish', '_INBOX_alice.x.y', 'answers its other processes'],
  ['alice', 'publish', `${API}.DIRECT.GET.PASSOVER.return.alice.audit.${ID}.audit`, 'reads a journal of its own'],
  ['alice', 'publish', `$O.parts.alice.C.${HASH}.0`, 'puts a part'],
  ['alice', 'publish', `${API}.DIRECT.GET.OBJ_parts_audit.$O.parts.audit.M.${HASH}`, 'gets a part of a return'],
  ['alice', 'subscribe', 'returned.alice.0abcdefg.>', 'hears its returns'],
  ['alice', 'subscribe', 'decided.alice', 'hears decisions'],
  ['alice', 'subscribe', 'fence.alice.*.*.*', 'hears which returns are to be read'],
  ['alice', 'subscribe', 'held.alice.*.*.*', 'hears which returns are to be read'],
  ['alice', 'subscribe', '_INBOX_alice.x.*', 'hears answers'],
  ['audit', 'publish', `return.alice.audit.${ID}.audit`, 'returns'],
  ['audit', 'publish', `fence.alice.audit.${ID}.audit`, 'begins an attempt'],
  ['audit', 'publish', `event.alice.audit.${ID}.progress.audit`, 'tells of progress'],
  ['audit', 'publish', `event.alice.audit.${ID}.late.audit`, 'keeps a late output'],
  ['audit', 'publish', 'request.mallory.audit', 'passes on'],
  ['audit', 'publish', 'register.audit', 'registers itself'],
  ['audit', 'publish', `${API}.CONSUMER.MSG.NEXT.PASSOVER.work_audit_low`, 'takes its work'],
  ['audit', 'publish', `${API}.CONSUMER.INFO.PASSOVER.work_audit_high`, 'looks when its consumer was made'],
  ['audit', 'publish', '$JS.ACK.PASSOVER.work_audit_high.1.2.3.4.5', 'acknowledges its work'],
  ['audit', 'publish', `${API}.DIRECT.GET.PASSOVER.work.alice.audit.${ID}.high`, 'reads a journal of a pass to it'],
  ['audit', 'publish', '$KV.presence.audit.0abcdef', 'says that it is up'],
  ['audit', 'subscribe', 'returned.*.*.*.audit.passover', 'hears that its work was ended'],
  ['dispatcher', 'publish', `$O.parts.alice.C.${HASH}.0`, 'stores a part of a client without the SDK'],
  ['bob', 'publish', `decision.alice.audit.${ID}.apply.bob`, 'decides'],
  ['bob', 'publish', `event.alice.audit.${ID}.cancel.bob`, 'cancels'],
  ['bob', 'publish', `event.alice.audit.${ID}.settled.bob`, 'settles a dead letter'],
  ['bob', 'publish', 'policy.bob', 'publishes a policy'],
  ['bob', 'publish', '$KV.agents.audit', 'registers an agent'],
  ['bob', 'publish', 'decided.alice', 'hints at a decision'],
  ['bob', 'publish', `${API}.CONSUMER.CREATE.PASSOVER.read_1`, 'watches'],
  ['dispatcher', 'publish', `work.alice.audit.${ID}.medium`, 'admits'],
  ['bob', 'publish', `${API}.CONSUMER.CREATE.KV_presence.read_1`, 'looks who is up'],
  ['dispatcher', 'publish', '$KV.budgets.alice.audit.x', 'writes a ledger'],
  ['dispatcher', 'publish', `held.alice.audit.${ID}.passover`, 'holds'],
  ['dispatcher', 'publish', `return.alice.audit.${ID}.passover`, 'refuses'],
  ['dispatcher', 'publish', `event.alice.audit.${ID}.dead_letter.passover`, 'keeps a dead letter'],
  ['dispatcher', 'publish', '$JS.ACK.PASSOVER.dispatcher.1.2.3.4.5', 'acknowledges requests'],
  ['dispatcher', 'subscribe', 'register.*', 'answers registrations'],
  ['auditor', 'subscribe', 'ask.*', 'answers'],
  ['auditor', 'publish', `event.alice.audit.${ID}.undelivered.passover`, 'records that a return was late'],
  ['auditor', 'publish', '$KV.acknowledged.alice.0', 'indexes what was acknowledged'],
  ['auditor', 'publish', '$KV.passes.2026-11.s.alice.audit.x', 'projects'],
  ['auditor', 'publish', `event.alice.audit.${ID}.violation.passover`, 'records a violation'],
]

const REFUSED: Row[] = [
  ['alice', 'publish', '$KV.presence.alice.0abcdef', 'does no work that could be up'],
  ['alice', 'publish', `event.alice.audit.${ID}.settled.alice`, 'settles the dead letter of its own pass'],
  ['bob', 'publish', `event.alice.audit.${ID}.settled.ann`, 'settles a dead letter as another'],
  ['bob', 'publish', 'request.audit.alice', 'asks as an agent'],
  ['audit', 'publish', '$KV.presence.mallory.0abcdef', 'says that another is up'],
  ['audit', 'publish', '$KV.presence.audit.a.b', 'writes beside its own'],
  ['audit', 'publish', '$KV.budgets.alice.audit.x', 'gives itself a budget'],
  ['bob', 'publish', '$KV.presence.audit.0abcdef', 'says that an agent is up'],
  ['bob', 'publish', '$KV.budgets.alice.audit.x', 'writes a ledger'],
  ['dispatcher', 'publish', '$KV.presence.audit.0abcdef', 'says that an agent is up'],
  // Forged senders.
  ['alice', 'publish', 'request.audit.bob', 'a request of another'],
  ['mallory', 'publish', 'request.audit.alice', 'a request of another'],
  ['alice', 'publish', `work.alice.audit.${ID}.high`, 'work without admission'],
  ['alice', 'publish', `held.alice.audit.${ID}.passover`, 'a held step'],
  ['alice', 'publish', `return.alice.audit.${ID}.alice`, 'a return to itself'],
  ['audit', 'publish', `return.alice.audit.${ID}.passover`, 'a return as passover'],
  ['mallory', 'publish', `return.alice.audit.${ID}.audit`, 'a return of another'],
  ['mallory', 'publish', `return.alice.audit.${ID}.mallory`, 'a return for work of another'],
  ['mallory', 'publish', `fence.alice.audit.${ID}.audit`, 'a fence of another'],
  ['mallory', 'publish', `fence.alice.audit.${ID}.mallory`, 'a fence into the journal of another'],
  ['audit', 'publish', `event.alice.audit.${ID}.violation.passover`, 'an event as passover'],
  ['audit', 'publish', `event.alice.audit.${ID}.cancel.alice`, 'a cancel in the name of another'],
  ['audit', 'publish', `event.alice.audit.${ID}.applied.audit`, 'applied, by the subagent'],
  ['mallory', 'publish', `event.alice.audit.${ID}.cancel.mallory`, 'cancelling a pass of others'],
  ['mallory', 'publish', `event.alice.audit.${ID}.progress.mallory`, 'progress of work of another'],
  ['mallory', 'publish', 'acknowledged.alice', 'acknowledging for another'],
  ['mallory', 'publish', 'ask.alice', 'asking as another'],
  ['mallory', 'publish', 'register.alice', 'registering another'],
  ['mallory', 'publish', 'returned.alice.0abcdefg.0abcdefgh.audit.audit', 'a heard return made up'],
  ['mallory', 'publish', 'decided.alice', 'a hint made up'],
  ['mallory', 'publish', '_INBOX_alice.x.y', 'an answer made up'],
  // Self-approval and the registry.
  ['audit', 'publish', `decision.alice.audit.${ID}.apply.audit`, 'approving its own work'],
  ['alice', 'publish', `decision.alice.audit.${ID}.dispatch.alice`, 'approving its own request'],
  ['audit', 'publish', `decision.alice.audit.${ID}.apply.bob`, 'approving as a person'],
  ['bob', 'publish', `decision.alice.audit.${ID}.apply.carol`, 'deciding as another person'],
  ['audit', 'publish', 'policy.audit', 'a policy by an agent'],
  ['audit', 'publish', 'agent.audit', 'a registration by an agent'],
  ['audit', 'publish', '$KV.agents.audit', 'the registry, written by an agent'],
  ['audit', 'publish', '$KV.policy.current', 'the policy, written by an agent'],
  ['audit', 'publish', '$KV.passes.2026-11.s.alice.audit.x', 'the projection, written by an agent'],
  ['bob', 'publish', 'request.audit.bob', 'a person is no agent'],
  ['bob', 'publish', `return.alice.audit.${ID}.passover`, 'a return by a person'],
  // Foreign consumers.
  ['mallory', 'publish', `${API}.CONSUMER.MSG.NEXT.PASSOVER.work_audit_high`, 'work of another'],
  ['mallory', 'publish', `${API}.CONSUMER.INFO.PASSOVER.work_audit_high`, 'consumer of another'],
  ['mallory', 'publish', '$JS.ACK.PASSOVER.work_audit_high.1.2.3.4.5', 'acknowledging work of another'],
  ['mallory', 'publish', `${API}.CONSUMER.MSG.NEXT.PASSOVER.returns_alice`, 'returns that wait for another'],
  ['mallory', 'publish', `${API}.CONSUMER.INFO.PASSOVER.returns_alice`, 'how many wait for another'],
  ['mallory', 'publish', '$JS.ACK.PASSOVER.returns_alice.1.2.3.4.5', 'acknowledging what waits for another'],
  ['mallory', 'publish', `${API}.CONSUMER.DELETE.PASSOVER.returns_alice`, 'deleting what waits for another'],
  ['mallory', 'publish', `${API}.CONSUMER.CREATE.PASSOVER.returns_alice`, 'changing what waits for another'],
  ['alice', 'publish', `${API}.CONSUMER.DELETE.PASSOVER.returns_alice`, 'its own, deleted'],
  ['alice', 'publish', `event.alice.audit.${ID}.undelivered.passover`, 'that its return was late'],
  ['bob', 'publish', `${API}.CONSUMER.MSG.NEXT.PASSOVER.returns_alice`, 'taking what waits for an agent, by a person'],
  ['bob', 'publish', `${API}.CONSUMER.DELETE.PASSOVER.returns_alice`, 'deleting what waits for an agent, by a person'],
  ['auditor', 'publish', `${API}.CONSUMER.MSG.NEXT.PASSOVER.returns_alice`, 'taking what waits for an agent, by audit'],
  ['audit', 'publish', `${API}.CONSUMER.CREATE.PASSOVER.mine`, 'a consumer of its own'],
  ['audit', 'publish', `${API}.CONSUMER.CREATE.PASSOVER.work_audit_high`, 'its consumer, changed'],
  ['audit', 'publish', `${API}.CONSUMER.DURABLE.CREATE.PASSOVER.mine`, 'a durable of its own'],
  ['audit', 'publish', `${API}.CONSUMER.DELETE.PASSOVER.work_audit_high`, 'its consumer, deleted'],
  ['bob', 'publish', `${API}.CONSUMER.MSG.NEXT.PASSOVER.work_audit_high`, 'taking work, by a person'],
  ['bob', 'publish', `${API}.CONSUMER.CREATE.PASSOVER.work_audit_low`, 'changing a work consumer, by a person'],
  ['bob', 'publish', `${API}.CONSUMER.DELETE.PASSOVER.dispatcher`, 'deleting the dispatchers’ consumer'],
  // Reading what is others'.
  ['mallory', 'publish', `${API}.DIRECT.GET.PASSOVER.return.alice.audit.${ID}.audit`, 'a journal of others'],
  ['mallory', 'publish', `${API}.DIRECT.GET.PASSOVER.return.*.audit.>`, 'a journal of others, by wildcard'],
  ['mallory', 'publish', `${API}.DIRECT.GET.PASSOVER.request.audit.alice`, 'a request of another'],
  ['mallory', 'publish', `${API}.DIRECT.GET.PASSOVER`, 'batched direct get'],
  ['mallory', 'publish', `${API}.STREAM.MSG.GET.PASSOVER`, 'reading by sequence'],
  ['mallory', 'publish', `${API}.STREAM.MSG.GET.OBJ_parts_alice`, 'a part by sequence'],
  ['mallory', 'publish', `${API}.STREAM.INFO.OBJ_parts_alice`, 'listing the hashes of another'],
  ['mallory', 'publish', `${API}.CONSUMER.CREATE.OBJ_parts_alice.x`, 'reading a bucket whole'],
  ['mallory', 'publish', `${API}.DIRECT.GET.OBJ_archive.$O.archive.M.x`, 'the archive'],
  ['mallory', 'publish', `${API}.DIRECT.GET.KV_passes.$KV.passes.x`, 'the projection'],
  ['mallory', 'subscribe', 'returned.alice.>', 'returns of another'],
  ['mallory', 'subscribe', 'returned.>', 'all returns'],
  ['mallory', 'subscribe', 'return.>', 'publishes of returns'],
  ['mallory', 'subscribe', 'request.>', 'requests'],
  ['mallory', 'subscribe', 'returned.*.*.*.audit.passover', 'endings of another'],
  ['mallory', 'subscribe', 'fence.alice.*.*.*', 'fences of another'],
  ['mallory', 'subscribe', 'held.*.*.*.*', 'held passes of others'],
  ['mallory', 'subscribe', 'decided.alice', 'hints to another'],
  ['mallory', 'subscribe', '_INBOX_alice.>', 'answers to another'],
  ['mallory', 'subscribe', 'ask.*', 'questions'],
  ['mallory', 'subscribe', 'register.*', 'registrations'],
  ['mallory', 'subscribe', '>', 'everything'],
  ['mallory', 'publish', `$O.parts.alice.C.${HASH}.0`, 'a part in the bucket of another'],
  // Changing what is stored.
  ['mallory', 'publish', `${API}.STREAM.MSG.DELETE.PASSOVER`, 'deleting from the stream'],
  ['mallory', 'publish', `${API}.STREAM.PURGE.PASSOVER`, 'purging'],
  ['mallory', 'publish', `${API}.STREAM.DELETE.PASSOVER`, 'deleting the stream'],
  ['mallory', 'publish', `${API}.STREAM.UPDATE.PASSOVER`, 'changing the stream'],
  ['bob', 'publish', `${API}.STREAM.MSG.DELETE.PASSOVER`, 'deleting, by a person'],
  ['bob', 'publish', `${API}.STREAM.PURGE.PASSOVER`, 'purging, by a person'],
  ['dispatcher', 'publish', `${API}.STREAM.MSG.DELETE.PASSOVER`, 'deleting, by the dispatcher'],
  ['dispatcher', 'publish', `${API}.STREAM.PURGE.PASSOVER`, 'purging, by the dispatcher'],
  ['dispatcher', 'publish', `decision.alice.audit.${ID}.dispatch.passover`, 'approving, by the system'],
  ['auditor', 'publish', `${API}.STREAM.PURGE.PASSOVER`, 'purging, by audit'],
  ['auditor', 'publish', `return.alice.audit.${ID}.passover`, 'a return by audit'],
  ['auditor', 'publish', `${API}.CONSUMER.MSG.NEXT.PASSOVER.work_audit_high`, 'taking work, by audit'],
  ['auditor', 'publish', `${API}.STREAM.UPDATE.PASSOVER`, 'changing the stream, by audit'],
  ['auditor', 'publish', `work.alice.audit.${ID}.high`, 'work by audit'],
]

/** Wildcards cannot name the consumers of agents, and the core account's rights do not list agents: who is in it is trusted with them. */
const listsAgents = ([who, , subject]: Row) => (who === 'bob' || who === 'auditor') && /\.(work|returns)_\w+$/.test(subject)

describe.each([
  { mode: 'in one account', fixture: permittedFixture, refused: REFUSED },
  { mode: 'with an account for each agent', fixture: isolatedFixture, refused: REFUSED.filter((row) => !listsAgents(row)) },
])('permissions, enforced by the server, $mode', ({ fixture, refused }) => {
  let permitted: PermittedFixture
  const probes = new Map<Who, Probe>()

  beforeAll(async () => {
    permitted = await fixture(Object.values(WHO))
    for (const who of Object.keys(WHO) as Who[]) probes.set(who, await permitted.probe(WHO[who]))
  })
  afterAll(() => permitted?.[Symbol.asyncDispose]())

  const tried = (who: Who, does: 'publish' | 'subscribe', subject: string) => {
    const probe = probes.get(who)
    if (!probe) throw new Error(`no probe for ${who}`)
    return probe[does](subject)
  }

  it.each(ALLOWED)('%s may %s %s (%s)', async (who, does, subject) => {
    expect(await tried(who, does, subject)).toBe('allowed')
  })

  it.each(refused)('%s may not %s %s (%s)', async (who, does, subject) => {
    expect(await tried(who, does, subject)).toBe('refused')
  })

  it('is written down in docs/reference/permissions.md as it is', async () => {
    const page = await readFile(new URL('../../../docs/reference/permissions.md', import.meta.url), 'utf8')
    expect(page.endsWith(`${permissionTable()}\n`), 'run `node infra/setup/permissions.mjs`').toBe(true)
  })

  it('lets nobody in without credentials', async () => {
    await expect(permitted.probe({ role: 'person', name: 'nobody' })).rejects.toThrow(/authorization/i)
  })
})
