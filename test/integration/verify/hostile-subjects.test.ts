import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect as connectClient, headers } from '@nats-io/transport-node'
import { folderArchive } from '@passover/archive'
import { type Bus, encode, openBus, permissionsFor } from '@passover/bus'
import { checkStream } from '@passover/chaos'
import { verifyArchive, verifyLive } from '@passover/cli'
import { HEADER } from '@passover/schemas'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { World } from '../../support/dispatcher/dispatcher.js'
import { until } from '../../support/processes/until.js'

const RULES = { id_window_ms: 3_600_000 }
/** Subjects that the stream stores and no correct publisher uses. An agent may publish requests and events whose subject ends with its name. */
const NAMELESS = [
  'request.Not-A-Name!.alice',
  'request.-x.alice',
  `request.${'x'.repeat(65)}.alice`,
  'request.passover!.al ice'.replace(' ', '\u00e9'),
]
const NO_PASS = ['decision.al!ce.audit.given-id-1.dispatch.ann', 'event.alice.au!dit.given-id-1.cancel.alice', 'acknowledged.al!ce']

let world: AgentWorld
let ops: Bus
let folder: string

beforeAll(async () => {
  world = await AgentWorld.start({ audit: { people: ['ops'] } })
  ops = await openBus({ servers: world.world.nats.servers, identity: 'ops', onError: () => undefined })
  folder = await mkdtemp(join(tmpdir(), 'hostile-'))
})
afterAll(async () => {
  await ops?.[Symbol.asyncDispose]()
  await world?.[Symbol.asyncDispose]()
  await rm(folder, { recursive: true, force: true })
})

// Fails where such a request is no request for the verifier: its answer then answers nothing, which is a fault, and any agent can cause it.
it('a subject that names no agents is answered, named in a remark, and no fault', async () => {
  const nc = await connectClient({ servers: world.world.nats.servers })
  const requests: number[] = []
  for (const subject of [...NAMELESS, ...NO_PASS]) {
    for (const body of [
      Buffer.from('hello'),
      encode({ v: 1, request: { originating_agent_id: 'nobody', subagent_id: 'nobody' } }, 'json'),
    ]) {
      const answer = await nc.request(subject, body, { timeout: 5_000 })
      const { seq } = answer.json<{ seq: number }>()
      if (NAMELESS.includes(subject)) requests.push(seq)
    }
  }
  await nc.close()
  const answerTo = (sequence: number) => ops.journal.last(`return.nobody.nobody.${ops.subjects.badId(sequence)}.passover`)
  for (const sequence of requests) await until(async () => (await answerTo(sequence)) !== undefined, { what: `an answer to ${sequence}` })
  const live = await verifyLive(ops, { ...RULES, save: folder })
  expect([live.ok, live.shown]).toEqual([true, []])
  for (const subject of NAMELESS)
    expect(live.remarked.map(({ what }) => what)).toContain(
      `${subject} is not trusted: its subject does not name an originator and a subagent`,
    )
  expect(live.counts.passes).toBe(requests.length)
  expect(await verifyArchive(folderArchive(folder), RULES)).toMatchObject({ ok: true, shown: [] })
})

const NAMES = ['audit', 'alice', 'passover', 'nobody', '__proto__', 'Not-A-Name!', '-x', 'x'.repeat(65), '\u00e9']
const IDS = ['bad-000000001', 'given-id-9', '__proto__', 'x'.repeat(300), 'al!ce']
/** Headers as a service would write them, in a message of an agent. */
const FORGED = {
  [HEADER.id]: 'given-id-9',
  [HEADER.request]: '1',
  [HEADER.requestedAt]: '8639999999999999',
  [HEADER.digest]: 'd'.repeat(64),
  [HEADER.attempt]: '1',
  [HEADER.first]: '1',
  [HEADER.code]: 'E005',
  [HEADER.proof]: '1',
  [HEADER.parent]: 'alice/audit/given-id-9',
  [HEADER.timeout]: '-1',
}

/** Every subject that the agent may publish to and the stream stores, with each of the names and ids in place of a wildcard. */
function hostileSubjects(agent: string): string[] {
  const stored = /^(?:request|fence|return|event|acknowledged|held|work|decision|policy|agent|custody)\./
  const patterns = permissionsFor(
    { role: 'agent', name: agent, originates: true, subagent: true },
    { subjects: ops.subjects, agents: 'any' },
  ).publish.filter((subject) => stored.test(subject))
  return patterns.flatMap((pattern) => {
    const isPass = pattern.split('.').length > 3
    return NAMES.flatMap((name) => {
      const named = pattern.replace('*', name)
      return isPass ? IDS.map((id) => named.replace('*', id)) : [named]
    })
  })
}

it('no subject, header or body that an agent may publish is a fault', async () => {
  const nc = await connectClient({ servers: world.world.nats.servers })
  const send = async (subject: string, more: Record<string, string>, body: Uint8Array) => {
    const own = headers()
    for (const [name, value] of Object.entries(more)) own.set(name, value)
    const answer = await nc.request(subject, body, { timeout: 5_000, headers: own })
    return answer.json<{ seq: number }>().seq
  }
  const requests: number[] = []
  for (const subject of new Set(hostileSubjects('alice'))) {
    for (const [more, body] of [
      [{ 'X-Any': '1' }, Buffer.from('hello')],
      [FORGED, encode({ v: 1, output: {}, applied: ['a'], digests: ['d'], control: {}, error: { code: 'E005', message: 'x' } })],
    ] as const) {
      const sequence = await send(subject, more, body)
      if (subject.startsWith('request.') && more !== FORGED) requests.push(sequence)
    }
  }
  await nc.close()
  const answered = async (sequence: number) => ops.journal.newest(`return.*.*.${ops.subjects.badId(sequence)}.passover`)
  for (const sequence of requests) await until(async () => (await answered(sequence)) !== undefined, { what: `an answer to ${sequence}` })
  const saved = join(folder, 'corpus')
  const live = await verifyLive(ops, { ...RULES, save: saved })
  expect([live.ok, live.shown]).toEqual([true, []])
  expect(await verifyArchive(folderArchive(saved), RULES)).toMatchObject({ ok: true, shown: [] })
  expect((await checkStream(world.world.nats.servers)).problems).toEqual([])
})

// Fails where the dispatcher guards the refusal of a malformed request on an empty journal, or takes any step there for its own: the request is never
// answered then, which is a fault.
it.each([
  ['a fence', 'fence', 1],
  ['a return', 'return', 1],
  ['more steps than a pass can have', 'fence', 70],
] as const)('a malformed request is answered although its agent stored %s under the id of the refusal', async (_, kind, steps) => {
  await using quiet = await World.start()
  const nc = await connectClient({ servers: quiet.nats.servers })
  const send = async (subject: string) => {
    const own = headers()
    own.set('Passover-Attempt', '1')
    return (await nc.request(subject, Buffer.from('hello'), { timeout: 5_000, headers: own })).json<{ seq: number }>().seq
  }
  const first = await send('acknowledged.alice')
  const sequence = first + steps + 1
  const id = quiet.bus.subjects.badId(sequence)
  for (let n = 0; n < steps; n++) await send(`${kind}.alice.alice.${id}.alice`)
  expect(await send('request.alice.alice')).toBe(sequence)
  await nc.close()
  const answer = `return.alice.alice.${id}.passover`
  await until(async () => (await quiet.bus.journal.last(answer)) !== undefined, { what: 'an answer' })
  expect(await verifyLive(quiet.bus, RULES)).toMatchObject({ ok: true, shown: [] })
})
