import { type BudgetLedger, budgetLedger, keyText, type PassKey } from '@passover/schemas'
import { describe, expect, test } from 'vitest'
import { checkOf, deleteStreams } from '../../support/attacks/broken-topology.js'
import { decided } from '../../support/dispatcher/decided.js'
import { type Ask, CONTEXT, sequenceOf, World } from '../../support/dispatcher/dispatcher.js'
import { until } from '../../support/processes/until.js'

async function proofOf(world: World, key: PassKey) {
  const journal = await world.state(key, 'open')
  const { return_id } = await world.work(key)
  return { ...key, return_id, proof: journal.last }
}

async function agents(world: World) {
  for (const name of ['audit', 'scout', 'fixer']) await world.agent(name)
}

async function ledger(world: World, root: PassKey): Promise<BudgetLedger | undefined> {
  const table = await world.bus.table('budgets', budgetLedger)
  return (await table.get(`${root.originator}.${root.subagent}.${root.id}`))?.value
}

/** Children of a pass asked for at once; which of them began, and why the others did not. */
async function children(world: World, root: PassKey, times: number, what: Ask = {}) {
  const parent = await proofOf(world, root)
  const ask = { from: 'audit', to: 'scout', timeout_ms: 110_000, ...what, parent }
  const keys = await Promise.all(Array.from({ length: times }, () => world.ask(ask)))
  return decided(world, keys)
}

describe('budgets', () => {
  test('three dispatchers, 200 children at once, a budget of 50 passes: exactly 50 begin', async () => {
    await using world = await World.start({ dispatchers: [{}, {}, {}] })
    await agents(world)
    const root = await world.ask({ budget: { passes: 50 }, timeout_ms: 120_000 })
    const { open, errors } = await children(world, root, 200)
    expect(open).toHaveLength(50)
    expect(errors).toHaveLength(150)
    for (const error of errors) expect(error).toMatchObject({ code: 'E014', details: { field: 'budget.passes', limit: 50, count: 50 } })
    const kept = await ledger(world, root)
    expect(Object.values(kept?.accounts ?? {})).toMatchObject([{ passes: 50, limit: { passes: 50 } }])
    expect(Object.keys(kept?.charges ?? {})).toHaveLength(50)
  })

  test('a ledger that somebody deleted grants nothing more to its tree, and new trees are counted', async () => {
    await using world = await World.start({ dispatchers: [{ stores_ms: 100 }] })
    await agents(world)
    const root = await world.ask({ budget: { passes: 5 }, timeout_ms: 120_000 })
    expect((await children(world, root, 2)).open).toHaveLength(2)
    await deleteStreams(world.nats.servers, 'KV_budgets')
    await until(() => checkOf(world.dispatchers[0]!, 'buckets').did !== undefined, { what: 'the bucket is made anew', deadline_ms: 30_000 })
    const lost = { code: 'E014', details: { field: 'budget', lost: true } }
    expect(await children(world, root, 1)).toMatchObject({ open: [], errors: [lost] })
    const young = await world.ask({ budget: { passes: 1 }, timeout_ms: 120_000 })
    expect((await children(world, young, 2)).open).toHaveLength(1)
  })

  test('tokens and time are taken as granted, and never more than is left', async () => {
    await using world = await World.start()
    await agents(world)
    const root = await world.ask({ budget: { time_ms: 50_000 }, timeout_ms: 40_000 })
    const granted: number[] = []
    for (const timeout_ms of [20_000, 20_000, 20_000]) {
      const [key] = (await children(world, root, 1, { timeout_ms })).open
      granted.push((await world.work(key!)).timeout_ms)
    }
    expect(granted).toEqual([20_000, 20_000, 10_000])
    expect((await children(world, root, 1)).errors).toMatchObject([
      { code: 'E014', details: { field: 'budget.time_ms', limit: 50_000, count: 50_000 } },
    ])
    const context_tokens = Math.ceil((await world.work(root)).context_bytes / 4)
    const frugal = await world.ask({ budget: { tokens: 2 * context_tokens + 1 } })
    expect((await children(world, frugal, 2)).open).toHaveLength(2)
    expect((await children(world, frugal, 1)).errors).toMatchObject([{ code: 'E014', details: { field: 'budget.tokens' } }])
  })

  test("a grandchild takes from every budget above, and cannot get more than its parent's rest", async () => {
    await using world = await World.start()
    await agents(world)
    const root = await world.ask({ budget: { passes: 4 } })
    const [child] = (await children(world, root, 1, { budget: { passes: 2 } })).open
    expect((await world.work(child!)).budget).toEqual({ passes: 2 })
    const deep = { from: 'scout', to: 'fixer', budget: { passes: 1_000 } }
    const { open, errors } = await children(world, child!, 3, deep)
    expect(open).toHaveLength(2)
    expect(errors).toMatchObject([{ details: { field: 'budget.passes', limit: 2 } }])
    // 3 of 4 are taken: one is left to the root.
    expect((await children(world, root, 2)).open).toHaveLength(1)
  })

  test('without a budget nothing is written', async () => {
    await using world = await World.start()
    await agents(world)
    const root = await world.ask()
    expect((await children(world, root, 2)).open).toHaveLength(2)
    expect(await ledger(world, root)).toBeUndefined()
  })
})

/** Faults by which the next pass that takes from a budget waits then, until it may go on. */
function stalling() {
  let goOn: () => void = () => undefined
  let stalled: Promise<void> | undefined
  let arrived = false
  const at = async (point: string) => {
    if (point !== 'admission:after-charge' || !stalled || arrived) return
    arrived = true
    await stalled
  }
  const stall = () => {
    stalled = new Promise<void>((resolve) => {
      goOn = resolve
    })
  }
  return { faults: { at }, stall, goOn: () => goOn(), took: () => until(() => arrived, { what: 'it took its pass' }) }
}

describe('another request of an id whose first one took from a budget, and has not begun', () => {
  /** A tree of a budget with two passes below it that have some of their own, and one below the first that took and waits. */
  async function stalled() {
    const { faults, stall, goOn, took } = stalling()
    const world = await World.start({ faults })
    await agents(world)
    const root = await world.ask({ budget: { passes: 9, tokens: 100_000 } })
    const [left, right] = (await children(world, root, 2, { timeout_ms: 25_000, budget: { passes: 3 } })).open
    if (!left || !right) throw new Error('no parents')
    const ask = { from: 'scout', to: 'fixer', timeout_ms: 20_000 }
    const [below, beside] = [await proofOf(world, left), await proofOf(world, right)]
    stall()
    const first = await world.ask({ ...ask, parent: below })
    await took()
    /** Asks for something else under its id; gives the key of the answer if the id is the first one's. */
    const again = async (what: Ask): Promise<PassKey> => {
      const { key, ...message } = world.request({ ...ask, id: first.id, reason: 'other', ...what })
      return { ...key, id: world.bus.subjects.badId(sequenceOf(await world.bus.publish(message))) }
    }
    return { world, root, left, right, below, beside, first, again, goOn }
  }

  test('takes what it asks for beyond that, and may begin', async () => {
    const { world, root, left, below, first, again, goOn } = await stalled()
    await using _ = world
    const before = (await ledger(world, root))?.accounts[keyText(root)]?.tokens ?? 0
    const small = (await ledger(world, root))?.charges[keyText(first)]?.tokens ?? 0
    await again({ parent: below, work_context: { ...CONTEXT, objective: 'x'.repeat(40_000) } })
    const { context_bytes, parent } = await world.work(first)
    goOn()
    expect(parent).toMatchObject({ id: left.id })
    expect(context_bytes).toBeGreaterThan(40_000)
    const after = (await ledger(world, root))?.accounts[keyText(root)]?.tokens
    expect(after).toBe(before - small + Math.ceil(context_bytes / 4))
  })

  test('does not begin below another parent, and is told so when the first one has', async () => {
    const { world, root, left, right, beside, first, again, goOn } = await stalled()
    await using _ = world
    const refused = await again({ parent: beside })
    await until(() => world.dispatchers[0]!.stats().retried > 0, { what: 'it is tried later' })
    expect((await world.journal(first)).state).toBe('none')
    goOn()
    expect(await world.work(first)).toMatchObject({ parent: { id: left.id } })
    expect((await world.end(refused)).error).toMatchObject({ code: 'E005', details: { reason: 'id_used' } })
    expect((await ledger(world, root))?.accounts[keyText(left)]).toMatchObject({ passes: 1 })
    expect((await ledger(world, root))?.accounts[keyText(right)]).toBeUndefined()
  })
})

describe('what was taken and came to nothing', () => {
  const soon = { budgets_ms: 100 }

  test('is given back when the pass ends before its work step', async () => {
    let begin: () => void = () => undefined
    let arrived = false
    const stalled = new Promise<void>((resolve) => {
      begin = resolve
    })
    const faults = {
      at: async (point: string) => {
        if (point !== 'admission:after-charge') return
        arrived = true
        await stalled
      },
    }
    await using world = await World.start({ dispatchers: [soon], faults })
    await agents(world)
    const root = await world.ask({ budget: { passes: 1 } })
    const parent = await proofOf(world, root)
    const child = await world.ask({ from: 'audit', to: 'scout', parent })
    await until(() => arrived, { what: 'it took its pass' })
    expect(Object.values((await ledger(world, root))?.accounts ?? {})).toMatchObject([{ passes: 1 }])
    await world.cancel(child)
    expect((await world.end(child)).error?.code).toBe('E043')
    await until(async () => Object.keys((await ledger(world, root))?.charges ?? {}).length === 0, { what: 'it is given back' })
    begin()
    expect((await children(world, root, 1)).open).toHaveLength(1)
  })

  test('a dispatcher that dies between taking and the work step: the next one goes on with what was taken', async () => {
    let died: () => void = () => undefined
    const dead = new Promise<void>((resolve) => {
      died = resolve
    })
    const forever = new Promise<void>(() => undefined)
    await using world = await World.start({ dispatchers: [] })
    const first = await world.dispatcher(
      { budgets_ms: 3_600_000 },
      {
        faults: {
          at: (point) => {
            if (point !== 'admission:after-charge') return Promise.resolve()
            died()
            return forever
          },
        },
      },
    )
    await agents(world)
    const root = await world.ask({ budget: { passes: 1 }, timeout_ms: 60_000 })
    const parent = await proofOf(world, root)
    const child = await world.ask({ from: 'audit', to: 'scout', parent, timeout_ms: 50_000 })
    await dead
    await first.drain(0)
    await world.dispatcher(soon)
    await world.state(child, 'open', 30_000)
    expect((await children(world, root, 1)).errors).toMatchObject([{ details: { field: 'budget.passes', limit: 1, count: 1 } }])
    await until(async () => Object.values((await ledger(world, root))?.charges ?? {}).every(({ sure }) => sure), { what: 'it is settled' })
    expect(Object.values((await ledger(world, root))?.accounts ?? {})).toMatchObject([{ passes: 1 }])
  })

  test('a held pass that nobody approves gives back what it took', async () => {
    await using world = await World.start({
      dispatchers: [{ ...soon, policy: { version: 0, document: { pairs: { 'audit->scout': { hold_before_dispatch: true } } } } }],
    })
    await agents(world)
    const root = await world.ask({ budget: { passes: 1 } })
    const parent = await proofOf(world, root)
    const held = await world.ask({ from: 'audit', to: 'scout', parent })
    const journal = await world.state(held, 'held')
    expect((await children(world, root, 1)).errors).toMatchObject([{ code: 'E014' }])
    const { digest } = await world.control(journal.last)
    await world.decide(held, { verdict: 'deny', digest })
    await world.end(held)
    await until(async () => Object.keys((await ledger(world, root))?.charges ?? {}).length === 0, { what: 'it is given back' })
  })
})
