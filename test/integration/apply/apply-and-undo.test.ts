import { readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { decode } from '@passover/bus'
import { passAnswer } from '@passover/schemas'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { change, decideApply, keyOf, outputWith, Place } from '../../support/fixtures/apply.js'
import { until } from '../../support/processes/until.js'

const pairs = { 'alice->fixer': {}, 'alice->free': { require_user_approval: false }, 'alice->brief': { approval_expires_ms: 400 } }

let world: AgentWorld
let place: Place
beforeAll(async () => {
  world = await AgentWorld.start({ dispatchers: [{ policy: { version: 1, document: { pairs } } }] })
})
afterAll(async () => {
  await world?.[Symbol.asyncDispose]()
})
beforeEach(async () => {
  place = await Place.make()
  return () => place[Symbol.asyncDispose]()
})

const files = async () => (await readdir(place.directory)).filter((name) => name !== '.passover').sort()

describe('agent.apply', () => {
  it('applies exactly the two of three modifications that a person approved (gh-aw style partial review), and the record says so', async () => {
    for (const name of ['a', 'b', 'c']) await writeFile(place.in(name), name, { mode: 0o640 })
    const { alice, output, key } = await outputWith(world, [change('a', 'a', 'A'), change('b', 'b', 'B'), change('c', 'c', 'C')])
    const { bus } = world.world
    await decideApply(bus, output, { only: [1, 3] })
    const done = await alice.apply(output, { directory: place.directory })
    expect(done).toMatchObject({ applied: ['a', 'c'], conflicts: [], rejected: ['b'], applied_by: 'maria', recorded: true })
    expect(await Promise.all(['a', 'b', 'c'].map((name) => readFile(place.in(name), 'utf8')))).toEqual(['A', 'b', 'C'])
    expect((await stat(place.in('a'))).mode & 0o777).toBe(0o640)
    expect(await files()).toEqual(['a', 'b', 'c'])
    expect(output.metadata).toMatchObject({ applied: true, applied_by: 'maria', applied_at: done.applied_at })
    const event = await bus.journal.last(bus.subjects.event(key, 'applied', 'alice'))
    expect(decode(event?.data ?? new Uint8Array())).toMatchObject({ value: { applied_by: 'maria', applied: ['a', 'c'], rejected: ['b'] } })
  })

  it('overwrites nothing that was changed since: the file is a conflict with its three sides, and the rest of the set is left out too', async () => {
    await writeFile(place.in('a'), 'a')
    await writeFile(place.in('b'), 'by somebody')
    const { alice, output } = await outputWith(world, [change('a', 'a', 'A'), change('b', 'before', 'after')])
    await decideApply(world.world.bus, output)
    const done = await alice.apply(output, { directory: place.directory })
    expect(done).toMatchObject({ applied: [], held_back: ['a'], rejected: [] })
    expect(done.conflicts).toEqual([
      {
        number: 2,
        path: 'b',
        kind: 'conflict',
        why: 'it was changed since',
        sides: { old_content: 'before', current: 'by somebody', new_content: 'after', encoding: 'utf8' },
      },
    ])
    expect(await Promise.all(['a', 'b'].map((name) => readFile(place.in(name), 'utf8')))).toEqual(['a', 'by somebody'])
    expect(output.metadata.applied).toBe(false)
    // What is not in conflict can still be applied, by saying so.
    expect((await alice.apply(output, { directory: place.directory, only: [1] })).applied).toEqual(['a'])
  })

  it('creates, changes and deletes, in folders that were not there', async () => {
    await writeFile(place.in('old'), 'old')
    await writeFile(place.in('bin'), Buffer.from([1, 0, 2]))
    const { alice, output } = await outputWith(world, [
      change('deep/er/new', '', 'new', { operation: 'create' }),
      change('deep/by-spec', '', 'as it is without an operation'),
      change('old', 'old', '', { operation: 'delete' }),
      change('bin', Buffer.from([1, 0, 2]).toString('base64'), Buffer.from([0, 255]).toString('base64'), { encoding: 'base64' }),
    ])
    await decideApply(world.world.bus, output)
    expect((await alice.apply(output, { directory: place.directory })).conflicts).toMatchObject([{ path: 'bin', kind: 'refused' }])
    expect(await files()).toEqual(['bin', 'old'])
    const done = await alice.apply(output, { directory: place.directory, binary: true })
    expect(done.applied.sort()).toEqual(['bin', 'deep/by-spec', 'deep/er/new', 'old'])
    expect(await readFile(place.in('bin'))).toEqual(Buffer.from([0, 255]))
    expect(await readFile(place.in('deep/by-spec'), 'utf8')).toBe('as it is without an operation')
    expect(await files()).toEqual(['bin', 'deep'])
  })

  it('is E013 where nobody approved, somebody denied, a decision is about another return, or the output is another agent`s', async () => {
    await writeFile(place.in('a'), 'a')
    const { alice, output } = await outputWith(world, [change('a', 'a', 'A')])
    const { bus } = world.world
    const { directory } = place
    await expect(alice.apply(output, { directory })).rejects.toMatchObject({ code: 'E013' })
    await decideApply(bus, output, { digest: 'f'.repeat(64) })
    await expect(alice.apply(output, { directory })).rejects.toMatchObject({ code: 'E013' })
    await decideApply(bus, output, { verdict: 'deny' })
    await expect(alice.apply(output, { directory })).rejects.toMatchObject({
      code: 'E013',
      context: { approval: 'denied', person: 'maria' },
    })
    const bob = await world.agent('bob')
    await expect(bob.apply(output, { directory })).rejects.toMatchObject({ code: 'E013' })
    await expect(bob.apply(output.work_id, { directory })).rejects.toMatchObject({ code: 'E041' })
    expect(await readFile(place.in('a'), 'utf8')).toBe('a')
  })

  it('is E013 for good once nobody approved in time: a decision that comes after that counts for nothing', async () => {
    await writeFile(place.in('a'), 'a')
    const alice = await world.agent('alice')
    const brief = await world.agent('brief')
    const { bus } = world.world
    await using _worker = await brief.onPass(() => ({ artifacts: [change('a', 'a', 'A')] }))
    const output = await alice.passOver({ subagent: 'brief', reason: 'fix', work_context: { objective: 'fix' } })
    const stored = await bus.journal.last(bus.subjects.return(keyOf(output), 'brief'))
    await until(() => bus.now() > (stored?.time ?? Number.POSITIVE_INFINITY) + 400, { what: 'its time is over' })
    await decideApply(bus, output)
    await world.audits[0]?.settled()
    const { directory } = place
    await expect(alice.apply(output, { directory })).rejects.toMatchObject({ code: 'E013' })
    const told = passAnswer.parse(await bus.ask({ op: 'pass', id: output.work_id, due: true }))
    expect(told.ok && told.passes[0]).toMatchObject({ decisions: [] })
    expect(told.ok && told.passes[0]?.due).toBeUndefined()
    expect(await readFile(place.in('a'), 'utf8')).toBe('a')
  })

  it('takes nothing beyond the decision, and applies what is stored, not what the caller made of it', async () => {
    for (const name of ['a', 'b']) await writeFile(place.in(name), name)
    const { alice, output } = await outputWith(world, [change('a', 'a', 'A'), change('b', 'b', 'B')])
    await decideApply(world.world.bus, output, { only: [1] })
    const { directory } = place
    await expect(alice.apply(output, { directory, only: [1, 2] })).rejects.toMatchObject({ code: 'E013' })
    await expect(alice.apply(output, { directory, only: [3] })).rejects.toMatchObject({ code: 'E005' })
    output.artifacts = [change('b', 'b', 'stolen')]
    expect((await alice.apply(output, { directory })).applied).toEqual(['a'])
    expect(await readFile(place.in('b'), 'utf8')).toBe('b')
  })

  it('needs no decision where the policy of the pass says so, and goes by the id too', async () => {
    await writeFile(place.in('a'), 'a')
    const alice = await world.agent('alice')
    const free = await world.agent('free')
    await using _worker = await free.onPass(() => ({ artifacts: [change('a', 'a', 'A')] }))
    const { work_id } = await alice.passOver({ subagent: 'free', reason: 'fix', work_context: { objective: 'fix' } })
    const { directory } = place
    expect(await alice.apply(work_id, { directory })).toMatchObject({ applied: ['a'], applied_by: 'alice' })
    expect(await alice.apply(work_id, { directory })).toMatchObject({ applied: [], already: ['a'] })
  })
})

describe('agent.undo', () => {
  it('puts everything back where nothing was changed since, and the record follows', async () => {
    await writeFile(place.in('a'), 'a\r\n', { mode: 0o751 })
    await writeFile(place.in('old'), 'old', { mode: 0o600 })
    const { alice, output, key } = await outputWith(world, [
      change('a', 'a\n', 'A\n'),
      change('deep/new', '', 'new', { operation: 'create' }),
      change('old', 'old', '', { operation: 'delete' }),
    ])
    const { directory } = place
    const { bus } = world.world
    await decideApply(bus, output)
    await alice.apply(output, { directory })
    expect(await readFile(place.in('a'), 'utf8')).toBe('A\r\n')
    const recorded = (applied: boolean) =>
      until(
        async () => {
          const answer = (await bus.ask({ op: 'pass', ...key })) as { passes?: { record?: { metadata?: { applied?: boolean } } }[] }
          return answer.passes?.[0]?.record?.metadata?.applied === applied
        },
        { what: `the record says applied: ${applied}` },
      )
    await recorded(true)
    await writeFile(place.in('deep/new'), 'mine')
    expect(await alice.undo(key.id, { directory })).toMatchObject({ undone: [], conflicts: [{ path: 'deep/new' }] })
    expect(await readFile(place.in('a'), 'utf8')).toBe('A\r\n')
    await writeFile(place.in('deep/new'), 'new')
    const done = await alice.undo(key.id, { directory })
    expect(done.undone.sort()).toEqual(['a', 'deep/new', 'old'])
    expect(await readFile(place.in('a'), 'utf8')).toBe('a\r\n')
    expect((await stat(place.in('a'))).mode & 0o777).toBe(0o751)
    expect((await stat(place.in('old'))).mode & 0o777).toBe(0o600)
    expect(await files()).toEqual(['a', 'old'])
    await recorded(false)
    const said = { code: 'E041', context: { undone_by: 'alice', undone_at: expect.any(Number) } }
    await expect(alice.undo(key.id, { directory })).rejects.toMatchObject(said)
    expect((await alice.apply(output, { directory })).applied).toHaveLength(3)
  })
})
