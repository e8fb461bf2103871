import { randomBytes } from 'node:crypto'
import { headers } from '@nats-io/transport-node'
import { encode } from '@passover/bus'
import { collectEvidence } from '@passover/cli'
import { HEADER, keyText, passAnswer } from '@passover/schemas'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type PermittedAgents, permittedAgents } from '../../support/dispatcher/permitted-agents.js'

const MIB = 1024 ** 2
const FLOOD = 40
const BODY = randomBytes(900_000)
let world: PermittedAgents<'alice' | 'scout'>

beforeAll(async () => {
  world = await permittedAgents({ names: ['alice', 'scout'], person: 'custodian' })
})
afterAll(() => world?.[Symbol.asyncDispose]())

/** A pass that returned, and the subjects of what its parties may still publish about it. */
async function passOf() {
  const { agents, fixture } = world
  await using _worker = await agents.scout.onPass(() => Promise.resolve('done'))
  const handle = agents.alice.passOver({ subagent: 'scout', reason: 'x', work_context: { objective: 'o' } })
  await handle.result()
  const key = { originator: 'alice', subagent: 'scout', id: handle.id }
  return { key, subjects: fixture.subjects }
}

async function flood(name: 'alice' | 'scout', subject: string, count: number): Promise<void> {
  await using probe = await world.probe(name)
  for (let n = 0; n < count; n++) await probe.nc.request(subject, BODY, { timeout: 10_000 })
}

it.each(['late', 'started', 'progress'] as const)('reads a bounded part of %s events, and all that others published', async (kind) => {
  const { key, subjects } = await passOf()
  await flood('scout', subjects.event(key, kind, 'scout'), FLOOD)
  await flood('alice', subjects.event(key, 'cancel', 'alice'), 1)
  let cut: string | undefined
  const stored = await world.person.journal.history(key, 1, (what) => {
    cut = what
  })
  expect(stored.reduce((sum, { data }) => sum + data.length, 0)).toBeLessThan(4 * MIB)
  expect(cut).toBe(kind === 'progress' ? 'progress' : 'events')
  expect(stored.filter(({ subject }) => subject.includes('.cancel.')).length).toBe(1)
  expect(stored.filter(({ subject }) => subject.startsWith('return.')).length).toBe(1)
})

it('shows every event of a flooded pass, and its output', async () => {
  const { key, subjects } = await passOf()
  await flood('scout', subjects.event(key, 'late', 'scout'), FLOOD)
  await flood('scout', subjects.return(key, 'scout'), FLOOD)
  const answer = passAnswer.parse(await world.person.ask({ op: 'pass', id: key.id, history: true }, { timeout_ms: 60_000 }))
  const pass = answer.ok ? answer.passes[0] : undefined
  expect(pass?.history?.filter(({ kind }) => kind === 'late').length).toBe(FLOOD)
  expect(pass?.history?.filter(({ kind, ignored }) => kind === 'return' && ignored === undefined).length).toBe(1)
  expect(pass?.row.status).toBe('processed')
  expect(pass?.return?.data.length).toBeLessThan(10_000)
})

it('collects no evidence about another pass that an agent names in a fence', async () => {
  const other = await passOf()
  const { key, subjects } = await passOf()
  await using probe = await world.probe('scout')
  const named = headers()
  named.set(HEADER.parent, keyText(other.key))
  named.set('Content-Type', 'application/msgpack')
  await probe.nc.request(subjects.fence(key, 'scout'), encode({ v: 1 }), { headers: named, timeout: 10_000 })
  const { entries } = await collectEvidence(world.person, { id: key.id })
  expect(entries.some(({ subject }) => subject.startsWith('fence.'))).toBe(true)
  expect(entries.filter(({ subject }) => subject.includes(other.key.id))).toEqual([])
})

it('collects bounded evidence of a flooded pass, and names what it left out', async () => {
  const { key, subjects } = await passOf()
  await flood('scout', subjects.event(key, 'late', 'scout'), FLOOD)
  await flood('scout', subjects.event(key, 'progress', 'scout'), FLOOD)
  const { entries, left_out } = await collectEvidence(world.person, { id: key.id })
  expect(entries.reduce((sum, { data }) => sum + data.length, 0)).toBeLessThan(4 * MIB)
  expect(entries.some(({ subject }) => subject.startsWith('return.'))).toBe(true)
  const name = `alice/scout/${key.id}`
  expect(left_out).toEqual([`events of ${name} in the stream`, `progress of ${name} in the stream`])
})
