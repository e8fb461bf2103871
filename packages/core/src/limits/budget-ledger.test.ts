import type { Budget } from '@passover/schemas'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Ledger } from './budget-ledger.js'

const ask = (pass: string, parent: string, budget: Budget, more: { tokens?: number; time_ms?: number } = {}) => ({
  pass,
  parent: { pass: parent, budget },
  tokens: 10,
  time_ms: 1_000,
  at: 1,
  ...more,
})

describe('a ledger of budgets', () => {
  it('grants what is asked for, and no more than is left', () => {
    const ledger = new Ledger()
    const budget = { passes: 3, tokens: 25, time_ms: 1_500 }
    expect(ledger.charge(ask('a', 'root', budget))).toEqual({
      ok: true,
      grant: { time_ms: 1_000, rest: { passes: 2, tokens: 15, time_ms: 500 } },
    })
    expect(ledger.charge(ask('b', 'root', budget))).toMatchObject({ grant: { time_ms: 500, rest: { passes: 1, tokens: 5, time_ms: 0 } } })
    expect(ledger.charge(ask('c', 'root', budget))).toEqual({ ok: false, used_up: { field: 'budget.tokens', limit: 25, count: 20 } })
    expect(ledger.charge(ask('c', 'root', budget, { tokens: 1 }))).toMatchObject({ used_up: { field: 'budget.time_ms', count: 1_500 } })
    ledger.release('b')
    expect(ledger.charge(ask('c', 'root', budget, { tokens: 1 }))).toMatchObject({ ok: true, grant: { time_ms: 500 } })
  })

  it("a grandchild takes from its parent's grant and from every budget above", () => {
    const ledger = new Ledger()
    expect(ledger.charge(ask('child', 'root', { passes: 3 }))).toMatchObject({ ok: true })
    expect(ledger.charge(ask('deep', 'child', { passes: 1 }))).toEqual({ ok: true, grant: { time_ms: 1_000, rest: { passes: 0 } } })
    expect(ledger.charge(ask('deeper', 'child', { passes: 1 }))).toMatchObject({ used_up: { limit: 1, count: 1 } })
    expect(ledger.charge(ask('second', 'root', { passes: 3 }))).toMatchObject({ ok: true })
    expect(ledger.charge(ask('third', 'root', { passes: 3 }))).toMatchObject({ used_up: { limit: 3, count: 3 } })
    // Given back below, it is there again above.
    ledger.release('deep')
    expect(ledger.charge(ask('third', 'root', { passes: 3 }))).toMatchObject({ ok: true })
  })

  describe('another request of an id', () => {
    const used = (ledger: Ledger, pass = 'root') => ledger.data().accounts[pass]

    it('that asks for more tokens takes the rest of them, once, as long as either may begin', () => {
      const ledger = new Ledger()
      const budget = { passes: 1, tokens: 50 }
      ledger.charge(ask('a', 'root', budget))
      for (const tokens of [40, 40, 5]) {
        expect(ledger.charge(ask('a', 'root', budget, { tokens }))).toEqual({
          ok: true,
          grant: { time_ms: 1_000, rest: { passes: 0, tokens: 10 } },
        })
        expect(used(ledger)).toMatchObject({ passes: 1, tokens: 40, time_ms: 1_000 })
      }
      expect(ledger.charge(ask('a', 'root', budget, { tokens: 51 }))).toEqual({
        ok: false,
        used_up: { field: 'budget.tokens', limit: 50, count: 40 },
      })
      ledger.settle('a')
      expect(ledger.charge(ask('a', 'root', budget, { tokens: 51 }))).toMatchObject({ ok: true })
      expect(used(ledger)).toMatchObject({ tokens: 40 })
      ledger.release('a')
      expect(used(ledger)).toMatchObject({ passes: 0, tokens: 0, time_ms: 0 })
    })

    it('below another parent takes nothing while the first one may begin', () => {
      const ledger = new Ledger()
      for (const parent of ['left', 'right']) ledger.charge(ask(parent, 'root', { passes: 5 }))
      ledger.charge(ask('a', 'left', { passes: 2 }))
      expect(ledger.charge(ask('a', 'right', { passes: 0 }))).toBe('taken')
      ledger.settle('a')
      expect(ledger.charge(ask('a', 'right', { passes: 0 }))).toMatchObject({ ok: true })
      ledger.release('a')
      expect(ledger.charge(ask('a', 'right', { passes: 0 }))).toMatchObject({ ok: false, used_up: { field: 'budget.passes' } })
    })
  })

  it('is bounded in size', () => {
    const ledger = new Ledger()
    const longest = (n: number) => String(n).padStart(64 * 3 + 2, 'n')
    const rest = { passes: 1_000_000, tokens: 1_000_000_000, time_ms: 86_400_000_000 }
    // Each below the one before it, so that each has an account of its own.
    for (let n = 1; n <= 1_000; n++) ledger.charge(ask(longest(n), longest(n - 1), rest))
    expect(Object.keys(ledger.data().accounts)).toHaveLength(1_000)
    expect(JSON.stringify(ledger.data()).length).toBeLessThan(1024 * 1024)
    expect(ledger.charge(ask('one more', longest(0), rest))).toMatchObject({ used_up: { field: 'budget.passes', limit: 1_000 } })
  })

  it('never exceeds a budget, whatever is charged, charged again, released and settled; after all is released nothing is used', () => {
    const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']
    const op = fc.record({
      what: fc.constantFrom('charge', 'charge', 'charge', 'again', 'release', 'settle'),
      pass: fc.constantFrom(...names),
      parent: fc.constantFrom('root', ...names),
      tokens: fc.nat(30),
      time_ms: fc.nat(30),
    })
    const budget = fc.record({ passes: fc.nat(5), tokens: fc.nat(60), time_ms: fc.nat(60) }, { requiredKeys: [] })
    fc.assert(
      fc.property(fc.array(op, { maxLength: 60 }), budget, (ops, top) => {
        let ledger = new Ledger()
        /** What each live pass may grant. */
        const grants = new Map<string, Budget>([['root', top]])
        const live = new Map<string, { parent: string; tokens: number; time_ms: number; sure: boolean }>()
        for (const { what, pass, parent, tokens, time_ms } of ops) {
          ledger = new Ledger(JSON.parse(JSON.stringify(ledger.data())))
          const held = grants.get(parent)
          if (what === 'charge' && held && !grants.has(pass)) {
            const charged = ledger.charge(ask(pass, parent, held, { tokens, time_ms }))
            if (charged !== 'taken' && charged.ok) {
              grants.set(pass, charged.grant.rest)
              live.set(pass, { parent, tokens, time_ms: charged.grant.time_ms, sure: false })
            }
          }
          const known = live.get(pass)
          if (what === 'again' && known) {
            // Its accounts are the ledger's own: what they were is copied.
            const before = structuredClone(ledger.data())
            const charged = ledger.charge(ask(pass, known.parent, {}, { tokens, time_ms }))
            const grows = tokens > known.tokens && !known.sure
            if (charged !== 'taken' && charged.ok) expect(charged).toMatchObject({ grant: { time_ms: known.time_ms } })
            else expect(charged).toMatchObject({ used_up: { field: grows ? 'budget.tokens' : 'nothing' } })
            if (grows && charged !== 'taken' && charged.ok) known.tokens = tokens
            else expect(ledger.data()).toEqual(before)
          }
          if (what === 'settle') {
            ledger.settle(pass)
            if (known) known.sure = true
          }
          const hasChildren = [...live.values()].some((one) => one.parent === pass)
          if (what === 'release' && known && !hasChildren) {
            ledger.release(pass)
            live.delete(pass)
            grants.delete(pass)
          }
          const sum = (of: (one: { tokens: number; time_ms: number }) => number) =>
            [...live.values()].reduce((all, one) => all + of(one), 0)
          expect(live.size).toBeLessThanOrEqual(top.passes ?? Number.POSITIVE_INFINITY)
          expect(sum((one) => one.tokens)).toBeLessThanOrEqual(top.tokens ?? Number.POSITIVE_INFINITY)
          expect(sum((one) => one.time_ms)).toBeLessThanOrEqual(top.time_ms ?? Number.POSITIVE_INFINITY)
          expect(ledger.unsure().every(({ pass: one }) => live.has(one))).toBe(true)
        }
        while (live.size > 0) {
          for (const [pass] of live)
            if (![...live.values()].some((one) => one.parent === pass)) {
              ledger.release(pass)
              live.delete(pass)
            }
        }
        for (const account of Object.values(ledger.data().accounts)) expect(account).toMatchObject({ passes: 0, tokens: 0, time_ms: 0 })
      }),
    )
  })
})
