import { existsSync } from 'node:fs'
import { readdir, readFile, rename, writeFile } from 'node:fs/promises'
import { decode } from '@passover/bus'
import { type AppliedBody, HEADER, type PassKey } from '@passover/schemas'
import type { Agent, Applied } from '@passover/sdk'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { change, decideApply, outputWith, Place } from '../../support/fixtures/apply.js'
import { startProcess, type TestProcess } from '../../support/processes/processes.js'
import { until } from '../../support/processes/until.js'

const APPLIER = new URL('../../dist/support/roles/applier.js', import.meta.url)
const ROUNDS = 50

let world: AgentWorld
let place: Place
beforeAll(async () => {
  world = await AgentWorld.start({
    dispatchers: [{ policy: { version: 1, document: { pairs: { 'alice->free': { require_user_approval: false } } } } }],
  })
})
afterAll(async () => {
  await world?.[Symbol.asyncDispose]()
})
beforeEach(async () => {
  place = await Place.make()
  return () => place[Symbol.asyncDispose]()
})

function applier(kill_at?: string): TestProcess {
  const env = { NATS_URL: world.world.nats.url, PASSOVER_AGENT: 'alice', ...(kill_at !== undefined && { KILL_AT: kill_at }) }
  return startProcess(APPLIER, { env, name: 'applier' })
}

/** The `applied` events of a pass, as they are stored. */
async function events(key: PassKey): Promise<AppliedBody[]> {
  const { bus } = world.world
  const stored = await bus.journal.history(key)
  return stored.flatMap((one) => {
    const parsed = bus.subjects.parse(one.subject)
    const decoded = decode(one.data, one.headers.get(HEADER.contentType))
    return parsed.kind === 'event' && parsed.event === 'applied' && decoded.ok ? [decoded.value as AppliedBody] : []
  })
}

const BEFORE = { a: 'a', b: 'b', 'deep/er/c': undefined }
const AFTER = { a: 'A', b: undefined, 'deep/er/c': 'C' }

async function files(): Promise<Record<string, string | undefined>> {
  const read = (path: string) => (existsSync(place.in(path)) ? readFile(place.in(path), 'utf8') : undefined)
  return { a: await read('a'), b: await read('b'), 'deep/er/c': await read('deep/er/c') }
}

/** Settles what a dead process left, and does nothing else. */
async function settle(agent: Agent): Promise<void> {
  await expect(agent.undo('no-such-pass', { directory: place.directory })).rejects.toMatchObject({ code: 'E041' })
}

const POINTS = [
  ...['after-decision', 'before-intent', 'after-intent', 'before-file', 'before-file#2', 'before-file#3'].map((at) => ({
    at,
    done: false,
  })),
  ...['after-files', 'before-event', 'after-event'].map((at) => ({ at, done: true })),
]

describe('kill -9 between approval and application', () => {
  it.each(POINTS)('at $at: applied once or not at all, never half of it, and the record says which', async ({ at, done }) => {
    await writeFile(place.in('a'), 'a')
    await writeFile(place.in('b'), 'b')
    const { alice, output, key } = await outputWith(world, [
      change('a', 'a', 'A'),
      change('b', 'b', '', { operation: 'delete' }),
      change('deep/er/c', '', 'C', { operation: 'create' }),
    ])
    await decideApply(world.world.bus, output)
    await using dying = applier(`apply:${at}`)
    await dying.heard('ready')
    dying.tell({ do: 'apply', id: key.id, directory: place.directory })
    await dying.heard('dies')
    expect((await dying.exited).signal).toBe('SIGKILL')
    await settle(alice)
    expect(await files()).toEqual(done ? AFTER : BEFORE)
    expect(new Set((await events(key)).map(({ nonce }) => nonce)).size).toBe(done ? 1 : 0)
    if (!done) expect((await readdir(place.directory)).filter((name) => name !== '.passover').sort()).toEqual(['a', 'b'])
    const again = await alice.apply(output, { directory: place.directory })
    expect(again).toMatchObject(done ? { applied: [], conflicts: [] } : { applied: ['a', 'b', 'deep/er/c'], conflicts: [] })
    expect(await files()).toEqual(AFTER)
    expect(new Set((await events(key)).map(({ nonce }) => nonce)).size).toBe(1)
    expect((await readdir(place.directory)).filter((name) => name.includes('.passover-'))).toEqual([])
    const applied = async () => {
      const answer = (await world.world.bus.ask({ op: 'pass', ...key })) as { passes?: { record?: { entry?: object } }[] }
      return answer.passes?.[0]?.record?.entry
    }
    await until(async () => ((await applied()) as { applied?: boolean } | undefined)?.applied, {
      what: 'the audit says that it is applied',
    })
    expect(await applied()).toMatchObject({ applied: true, applied_by: 'maria' })
  })

  /** Of three changes two were made when the process that applied them was killed. */
  async function killedBeforeTheThird() {
    await writeFile(place.in('a'), 'a')
    await writeFile(place.in('b'), 'b')
    const { alice, output, key } = await outputWith(world, [change('a', 'a', 'A'), change('b', 'b', 'B'), change('c', '', 'C')])
    await decideApply(world.world.bus, output)
    await using dying = applier('apply:before-file#3')
    await dying.heard('ready')
    dying.tell({ do: 'apply', id: key.id, directory: place.directory })
    await dying.exited
    return { alice, output, key }
  }

  it('a file that somebody changed after the kill stays theirs; the rest is put back', async () => {
    const { alice, key } = await killedBeforeTheThird()
    expect(await readFile(place.in('a'), 'utf8')).toBe('A')
    await writeFile(place.in('a'), 'mine')
    await settle(alice)
    expect([await readFile(place.in('a'), 'utf8'), await readFile(place.in('b'), 'utf8'), existsSync(place.in('c'))]).toEqual([
      'mine',
      'b',
      false,
    ])
    expect(await events(key)).toEqual([])
  })

  it('what a killed process took away of a file that somebody changed since is kept, and told until it is no longer wanted', async () => {
    const { alice, output, key } = await killedBeforeTheThird()
    await writeFile(place.in('a'), 'mine')
    const again = () => alice.apply(output, { directory: place.directory })
    const settled = [{ id: key.id, kind: 'apply', outcome: 'put_back', left: [{ path: 'a', kept: expect.any(String) }] }]
    const first = await again()
    expect(first).toMatchObject({ applied: [], conflicts: [{ path: 'a' }], settled })
    const kept = first.settled[0]?.left?.[0]?.kept ?? ''
    expect(await readFile(place.in(kept), 'utf8')).toBe('a')
    // Of what was put back nothing is kept.
    expect((await readdir(place.in(kept, '..'))).filter((name) => name.startsWith('before-'))).toEqual(['before-0'])
    expect((await again()).settled).toEqual(settled)
    await rename(place.in(kept), place.in('a'))
    expect(await again()).toMatchObject({ applied: ['a', 'b', 'c'], settled: [] })
    expect(await readdir(place.in('.passover', 'apply', key.id))).toHaveLength(1)
  })
})

describe('two processes in one directory', () => {
  it(`race for one file ${ROUNDS} times: one winner and one conflict each time`, async () => {
    const alice = await world.agent('alice')
    const free = await world.agent('free')
    let proposes = ''
    await using _worker = await free.onPass((pass) => ({ artifacts: [change('f', proposes, pass.objective)] }), { concurrency: 2 })
    await using one = applier()
    await using two = applier()
    await Promise.all([one.heard('ready'), two.heard('ready')])
    const wins = { one: 0, two: 0 }
    for (let round = 0; round < ROUNDS; round += 1) {
      proposes = `before ${round}`
      await writeFile(place.in('f'), proposes)
      const ask = (objective: string) => alice.passOver({ subagent: 'free', reason: 'x', work_context: { objective } })
      const outputs = await Promise.all([ask(`one ${round}`), ask(`two ${round}`)])
      for (const [index, process] of [one, two].entries())
        process.tell({ do: 'apply', tag: round, id: outputs[index]?.work_id, directory: place.directory })
      const said = (await Promise.all([one.heard('applied'), two.heard('applied')])) as unknown as { done: Applied }[]
      const winner = said.findIndex(({ done }) => done?.applied.length === 1)
      expect(said.map(({ done }) => done?.applied.length).sort()).toEqual([0, 1])
      expect(said[1 - winner]?.done.conflicts).toMatchObject([{ path: 'f', kind: 'conflict', why: 'it was changed since' }])
      expect(await readFile(place.in('f'), 'utf8')).toBe(`${winner === 0 ? 'one' : 'two'} ${round}`)
      wins[winner === 0 ? 'one' : 'two'] += 1
    }
    expect((await readdir(place.in('.passover', 'apply'))).filter((name) => name.startsWith('lock-'))).toEqual([])
    expect(wins.one + wins.two).toBe(ROUNDS)
  }, 180_000)

  it('apply the same pass: it is applied and told once', async () => {
    await writeFile(place.in('a'), 'a')
    const { output, key } = await outputWith(world, [change('a', 'a', 'A')])
    await decideApply(world.world.bus, output)
    await using one = applier()
    await using two = applier()
    await Promise.all([one.heard('ready'), two.heard('ready')])
    for (const process of [one, two]) process.tell({ do: 'apply', id: key.id, directory: place.directory })
    const said = (await Promise.all([one.heard('applied'), two.heard('applied')])) as unknown as { done: Applied }[]
    expect(said.map(({ done }) => [done.applied.length, done.already.length]).sort()).toEqual([
      [0, 1],
      [1, 0],
    ])
    expect(await events(key)).toHaveLength(1)
  })
})
