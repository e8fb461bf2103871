import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect as connectClient } from '@nats-io/transport-node'
import { folderArchive } from '@passover/archive'
import { type Bus, encode, openBus } from '@passover/bus'
import { verifyArchive, verifyLive } from '@passover/cli'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { AgentWorld } from '../../support/dispatcher/agents.js'
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
