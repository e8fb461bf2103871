import { type Budget, type BudgetLedger, LEDGER_PASSES } from '@passover/schemas'
import { smallerBudget } from '../policy/narrowing.js'

type Account = BudgetLedger['accounts'][string]
type Charge = BudgetLedger['charges'][string]

/** A pass that is about to begin below one that has a budget. Passes are named by their key text. */
export interface BudgetRequest {
  pass: string
  parent: { pass: string; budget: Budget }
  /** Estimated tokens of its context. */
  tokens: number
  time_ms: number
  /** Time of the request, server ms. */
  at: number
}

/** A budget that is used up. */
export interface BudgetExhausted {
  field: 'budget.passes' | 'budget.tokens' | 'budget.time_ms'
  limit: number
  count: number
}

/** Result of a charge. `lost` means that earlier charges of the tree are no longer known, so that nothing can be granted. */
export type ChargeResult = { ok: true; grant: Grant } | { ok: false; used_up: BudgetExhausted } | { ok: false; lost: true }

/** Grant for a pass: its own time, and what the passes below it may use of every budget above. */
export interface Grant {
  time_ms: number
  rest: Budget
}

/**
 * Budget ledger of one tree. A pass charges one pass, its context's tokens and its timeout to its parent's account and to every account above, all or
 * nothing. Charging the same pass again has no effect; releasing it undoes exactly that charge.
 */
export class Ledger {
  readonly #accounts: Map<string, Account>
  readonly #charges: Map<string, Charge>
  #changed = false

  constructor(data?: BudgetLedger) {
    this.#accounts = new Map(Object.entries(data?.accounts ?? {}).map(([pass, account]) => [pass, { ...account }]))
    this.#charges = new Map(Object.entries(data?.charges ?? {}))
  }

  get changed(): boolean {
    return this.#changed
  }

  data(): BudgetLedger {
    return { v: 1, accounts: Object.fromEntries(this.#accounts), charges: Object.fromEntries(this.#charges) }
  }

  /** Returns the passes whose work step is not known to be stored yet, with the time of their charge. */
  unsure(): { pass: string; at: number }[] {
    return [...this.#charges].flatMap(([pass, { sure, at }]) => (sure ? [] : [{ pass, at }]))
  }

  charge(request: BudgetRequest): ChargeResult | 'taken' {
    const { pass, parent, tokens, at } = request
    const present = this.#charges.get(pass)
    if (present) return this.#chargeAgain(present, request)
    const above = this.#above(parent.pass, parent.budget)
    const used_up = this.#charges.size >= LEDGER_PASSES ? full() : usedUp(above, tokens)
    if (used_up) return { ok: false, used_up }
    const time_ms = Math.min(request.time_ms, ...above.map(({ limit, time_ms }) => (limit.time_ms ?? Number.POSITIVE_INFINITY) - time_ms))
    if (!this.#accounts.has(parent.pass) && above[0]) this.#accounts.set(parent.pass, above[0])
    this.#charges.set(pass, { under: parent.pass, tokens, time_ms, at })
    for (const account of above) add(account, { tokens, time_ms, passes: 1 })
    this.#changed = true
    return { ok: true, grant: { time_ms, rest: this.#rest(parent.pass) } }
  }

  /**
   * Until the work step is known, another request with the same id may be the one that begins, so the larger number of tokens is charged. Returns
   * `taken` if a request below another parent may begin.
   */
  #chargeAgain(present: Charge, { pass, parent, tokens }: BudgetRequest): ChargeResult | 'taken' {
    const { under, time_ms, sure } = present
    if (!sure && under !== parent.pass) return 'taken'
    const more = tokens - present.tokens
    if (!sure && more > 0) {
      const above = this.#above(under)
      const used_up = tokensUsedUp(above, more)
      if (used_up) return { ok: false, used_up }
      for (const account of above) add(account, { tokens: more, time_ms: 0, passes: 0 })
      this.#charges.set(pass, { ...present, tokens })
      this.#changed = true
    }
    return { ok: true, grant: { time_ms, rest: this.#rest(under) } }
  }

  /** Undoes a charge after which no work step followed. */
  release(pass: string): void {
    const charge = this.#charges.get(pass)
    if (!charge) return
    for (const account of this.#above(charge.under)) add(account, { tokens: -charge.tokens, time_ms: -charge.time_ms, passes: -1 })
    this.#charges.delete(pass)
    this.#changed = true
  }

  /** Marks a charge as final: the work step is stored. */
  settle(pass: string): void {
    const charge = this.#charges.get(pass)
    if (!charge || charge.sure) return
    this.#charges.set(pass, { ...charge, sure: true })
    this.#changed = true
  }

  /** Returns the account of a pass, created if there is none, and the accounts above it. */
  #above(pass: string, budget: Budget = {}): Account[] {
    const accounts: Account[] = []
    for (let at: string | undefined = pass; at !== undefined; at = this.#charges.get(at)?.under) {
      const account = this.#accounts.get(at) ?? (at === pass ? { limit: budget, passes: 0, tokens: 0, time_ms: 0 } : undefined)
      if (account) accounts.push(account)
    }
    return accounts
  }

  #rest(pass: string): Budget {
    return smallerBudget(...this.#above(pass).map(restOf)) ?? {}
  }
}

function usedUp(accounts: readonly Account[], tokens: number): BudgetExhausted | undefined {
  for (const account of accounts) {
    const { limit, ...used } = account
    if (limit.passes !== undefined && used.passes >= limit.passes)
      return { field: 'budget.passes', limit: limit.passes, count: used.passes }
    const used_up = tokensUsedUp([account], tokens)
    if (used_up) return used_up
    if (limit.time_ms !== undefined && used.time_ms >= limit.time_ms)
      return { field: 'budget.time_ms', limit: limit.time_ms, count: used.time_ms }
  }
  return undefined
}

function tokensUsedUp(accounts: readonly Account[], tokens: number): BudgetExhausted | undefined {
  for (const { limit, tokens: count } of accounts)
    if (limit.tokens !== undefined && count + tokens > limit.tokens) return { field: 'budget.tokens', limit: limit.tokens, count }
  return undefined
}

function full(): BudgetExhausted {
  return { field: 'budget.passes', limit: LEDGER_PASSES, count: LEDGER_PASSES }
}

function add(account: Account, { passes, tokens, time_ms }: Omit<Account, 'limit'>): void {
  account.passes += passes
  account.tokens += tokens
  account.time_ms += time_ms
}

function restOf({ limit, passes, tokens, time_ms }: Account): Budget {
  const rest: Budget = {}
  if (limit.passes !== undefined) rest.passes = limit.passes - passes
  if (limit.tokens !== undefined) rest.tokens = limit.tokens - tokens
  if (limit.time_ms !== undefined) rest.time_ms = limit.time_ms - time_ms
  return rest
}
