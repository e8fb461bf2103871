import type { ParentProof, PassKey } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Installation, type OriginatorProcess, runsOf } from '../../support/dispatcher/installation.js'
import type { TestProcess } from '../../support/processes/processes.js'
import { until } from '../../support/processes/until.js'

let here: Installation
let alice: OriginatorProcess
const workers = new Map<string, TestProcess>()
beforeAll(async () => {
  here = await Installation.start()
  // She may be asked, too, so that a way back to her is refused as a loop and not because nobody knows her.
  await here.register('alice', 'always')
  const names = ['audit', 'scout', 'fixer', 'last']
  const started = await Promise.all(names.map((name) => here.worker(name, name)))
  names.forEach((name, n) => {
    const worker = started[n]
    if (worker) workers.set(name, worker)
  })
  alice = await here.originator()
})
afterAll(async () => {
  await here?.[Symbol.asyncDispose]()
})

const worker = (name: string) => workers.get(name) as TestProcess

/** What a child of this pass would say of it. */
async function proofOf(key: PassKey): Promise<ParentProof> {
  const journal = await here.world.state(key, 'open')
  const { return_id } = await here.world.work(key)
  return { ...key, return_id, proof: journal.valid }
}

describe('across processes', () => {
  test('the happy path: alice asks audit, audit asks scout, scout asks fixer, and each hears its return', async () => {
    const pass = alice.pass('audit', 'pass scout pass fixer echo')
    expect(await pass.outcome()).toMatchObject({ output: { by: 'audit', attempt: 1, depth: 1, ancestors: ['alice'] } })
    const [scouts] = worker('audit').said('child')
    const [fixers] = worker('scout').said('child')
    expect(JSON.parse(String(scouts?.output))).toMatchObject({ by: 'scout', depth: 2, ancestors: ['alice', 'audit'] })
    expect(JSON.parse(String(fixers?.output))).toMatchObject({ by: 'fixer', depth: 3, ancestors: ['alice', 'audit', 'scout'] })
    const { problems, totals } = await here.judge()
    expect(problems).toEqual([])
    expect(totals).toMatchObject({ passes: 3, ended: 3, by_code: { ok: 3 } })
  })
})

describe.concurrent('chains that are refused (the handler that asked throws what it heard, and its pass ends with E011)', () => {
  test.each([
    { what: 'depth 4 of 3', reason: 'pass scout pass fixer pass last echo', code: 'E002', by: 'fixer', to: 'last' },
    { what: 'to itself', reason: 'pass audit echo', code: 'E003', by: 'audit', to: 'audit' },
    { what: 'ping-pong', reason: 'pass alice echo', code: 'E003', by: 'audit', to: 'alice' },
    { what: 'a long loop', reason: 'pass scout pass fixer pass audit echo', code: 'E003', by: 'fixer', to: 'audit' },
  ])('$what: $code, and the refused pass runs nowhere', async ({ reason, code, by, to }) => {
    const outcome = await alice.pass('audit', reason).outcome()
    expect(outcome.code).toBe('E011')
    const { passes } = await here.judge()
    const refused = [...passes.values()].filter(({ key, ended }) => key.startsWith(`${by}/${to}/`) && ended?.code === code)
    expect(refused.length).toBeGreaterThan(0)
    for (const { key, works } of refused) {
      expect(works).toBe(0)
      expect(runsOf(key.split('/')[2] ?? '', ...workers.values())).toEqual([])
    }
  })

  test('alice to herself: E003', async () => {
    expect(await alice.pass('alice', 'echo').outcome()).toMatchObject({ code: 'E003' })
  })

  /** A chain alice → audit → scout → fixer whose workers wait: each key, root first. */
  async function openChain(): Promise<PassKey[]> {
    const { world } = here
    const root = await world.ask({ to: 'audit', reason: 'wait' })
    const second = await world.ask({ from: 'audit', to: 'scout', reason: 'wait', parent: await proofOf(root) })
    const third = await world.ask({ from: 'scout', to: 'fixer', reason: 'wait', parent: await proofOf(second) })
    await world.state(third, 'open')
    return [root, second, third]
  }

  test('a forged parent or chain does not help: depth and loop are judged by what is stored', async () => {
    const { world } = here
    const [root, second, third] = (await openChain()) as [PassKey, PassKey, PassKey]
    const codeOf = async (from: string, to: string, parent?: ParentProof, more: object = {}) => {
      const { key, data, ...message } = world.request({ from, to, reason: 'echo', form: 'json', ...(parent && { parent }) })
      // What a client claims of its place in a chain, in whatever words, is not asked for and not believed.
      const claims = { ancestors: [], chain_depth: 1, root: key, ...more }
      const body = JSON.parse(Buffer.from(data).toString()) as object
      await world.bus.publish({ ...message, data: Buffer.from(JSON.stringify({ ...body, ...claims })) })
      return (await world.end(key, 60_000)).error?.code
    }
    const [own, parents, grandparents] = [await proofOf(third), await proofOf(second), await proofOf(root)]
    // With its true parent, whatever it claims.
    expect(await codeOf('fixer', 'last', own)).toBe('E002')
    expect(await codeOf('fixer', 'audit', own)).toBe('E003')
    expect(await codeOf('fixer', 'alice', own)).toBe('E003')
    // With another's pass as its parent, which would be a shorter chain: it is not that pass's subagent.
    expect(await codeOf('fixer', 'last', parents)).toBe('E013')
    expect(await codeOf('fixer', 'audit', grandparents)).toBe('E013')
    // With a parent that is made up, and with none at all.
    expect(await codeOf('fixer', 'last', { ...own, id: world.id() })).toBe('E013')
    expect(await codeOf('fixer', 'last', { ...own, return_id: 'guessed' })).toBe('E013')
    expect(await codeOf('fixer', 'last')).toBe('E013')
    for (const one of [root, second, third]) worker(one.subagent).tell({ do: 'release' })
    await world.cancel(root)
    for (const one of [root, second, third]) await world.end(one, 60_000)
  })
})

describe.concurrent('time', () => {
  test('timeout with a dead worker: E010 within the bound, once', async () => {
    const dead = await here.worker('mortal', 'mortal')
    const pass = alice.pass('mortal', 'wait', { timeout_ms: 6_000 })
    await dead.heard('run')
    await dead.kill()
    expect(await pass.outcome()).toMatchObject({ code: 'E010' })
    const key = await pass.key()
    const found = (await here.judge()).passes.get(`alice/mortal/${key.id}`)
    expect(found).toMatchObject({ returns: 1, ended: { by: 'passover', code: 'E010' } })
    expect((found?.ended?.time ?? 0) - (found?.deadline ?? 0)).toBeLessThan(20_000)
  })

  test('an output after the timeout is stored as late, and never becomes a second return', async () => {
    const slow = await here.worker('slow', 'slow')
    const pass = alice.pass('slow', 'wait', { timeout_ms: 6_000 })
    await slow.heard('run')
    expect(await pass.outcome()).toMatchObject({ code: 'E010' })
    const key = await pass.key()
    slow.tell({ do: 'release' })
    const { bus } = here.world
    const late = await until(() => bus.journal.last(bus.subjects.event(key, 'late', 'slow')), { what: 'the late output' })
    expect(await here.world.body(late.sequence)).toMatchObject({ attempt: 1, output: { status: expect.any(String) } })
    expect((await bus.journal.read(key)).map(({ kind, by }) => `${kind} ${by}`)).toEqual([
      expect.stringMatching(/^work /),
      'return passover',
    ])
    expect(await alice.handle(key.id, 'slow').outcome()).toMatchObject({ code: 'E010' })
  })
})

test('after all of this the independent checker finds nothing wrong in the stream', async () => {
  expect((await here.judge()).problems).toEqual([])
})
