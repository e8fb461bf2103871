import { decode, type Table } from '@passover/bus'
import { type BudgetRequest, type ChargeResult, foldJournal, Ledger } from '@passover/core'
import { type BudgetLedger, budgetLedger, keyText, type PassKey, parseKey } from '@passover/schemas'
import { readSteps } from '../messages/read-journal.js'
import type { BaseContext } from '../runtime/base-context.js'

/** Minimum age of a charge in milliseconds before it is reconciled here. Until then, the request that made it usually finishes. */
const MIN_AGE_MS = 2_000
/** Number of rounds between two scans for unsettled ledgers of other dispatchers, for example of one that crashed. */
const ROUNDS_PER_SCAN = 60

interface Job {
  /** Changes the ledger. `undefined` means that the charges of the tree so far are unknown. */
  change: (ledger: Ledger | undefined) => void
  done: () => void
  failed: (error: unknown) => void
}

/**
 * Ledgers of budgeted trees. A budget is charged by compare-and-set before a work step, and the charge is released if the pass ends without one.
 * After a crash between the two, a charge without a confirmed work step is checked until the journal of its pass shows the outcome.
 */
export class BudgetStore {
  readonly #context: BaseContext
  readonly #table: Table<BudgetLedger>
  readonly #jobs = new Map<string, Job[]>()
  /** Root passes whose ledgers hold charges that are not confirmed by a work step. */
  readonly #unsure = new Map<string, PassKey>()
  /** Server time in milliseconds at which the bucket was re-created. Trees that began before then and have no ledger in the bucket have lost it. */
  #lost: number | undefined
  #timer: Disposable | undefined
  #rounds = 0
  #stopped = false

  private constructor(context: BaseContext, table: Table<BudgetLedger>) {
    this.#context = context
    this.#table = table
  }

  static async start(context: BaseContext): Promise<BudgetStore> {
    const budgets = new BudgetStore(context, await context.deps.bus.table('budgets', budgetLedger))
    budgets.#scheduleRound()
    return budgets
  }

  /**
   * Charges a pass to every budget above it, or reports which budget is exhausted. Returns `taken` if another request of the same id made a charge
   * below another parent. Throws if the bucket cannot be written.
   */
  async charge(root: PassKey, request: BudgetRequest): Promise<ChargeResult | 'taken'> {
    if (await this.#isLost(root)) return { ok: false, lost: true }
    let charged: ChargeResult | 'taken' | undefined
    await this.#change(root, (ledger) => {
      charged = ledger?.charge(request) ?? { ok: false, lost: true }
    })
    if (!charged) throw new TypeError('a stored change of the budget was not applied')
    if (charged !== 'taken' && charged.ok) this.#unsure.set(keyText(root), root)
    return charged
  }

  /** Records that ledgers from before this server time (ms) are lost. Trees that began before then get nothing more (decision 55). */
  lostBefore(made_at: number): void {
    this.#lost = Math.max(this.#lost ?? 0, made_at)
    this.#unsure.clear()
  }

  async #isLost(root: PassKey): Promise<boolean> {
    if (this.#lost === undefined || (await this.#table.get(keyOf(root)))) return false
    const [first] = await readSteps(this.#context.deps.bus, root)
    return first !== undefined && first.time < this.#lost
  }

  stop(): void {
    this.#stopped = true
    this.#timer?.[Symbol.dispose]()
  }

  /** Applies the changes of one tree in batches, one write at a time, so that concurrent siblings do not conflict with one another. */
  #change(root: PassKey, change: Job['change']): Promise<void> {
    return new Promise((done, failed) => {
      const name = keyText(root)
      const waiting = this.#jobs.get(name)
      if (waiting) waiting.push({ change, done, failed })
      else {
        this.#jobs.set(name, [{ change, done, failed }])
        void this.#work(root, name)
      }
    })
  }

  async #work(root: PassKey, name: string): Promise<void> {
    for (;;) {
      const jobs = this.#jobs.get(name)?.splice(0) ?? []
      if (jobs.length === 0) break
      try {
        while (!(await this.#write(root, jobs)));
        for (const { done } of jobs) done()
      } catch (error) {
        for (const { failed } of jobs) failed(error)
      }
    }
    this.#jobs.delete(name)
  }

  /** Writes a batch of changes. Returns false if another process wrote in the meantime. */
  async #write(root: PassKey, jobs: Job[]): Promise<boolean> {
    const key = keyOf(root)
    const entry = await this.#readLedger(key)
    const ledger = entry && new Ledger(entry.value)
    for (const { change } of jobs) change(ledger)
    return !ledger?.changed || (await this.#table.update(key, ledger.data(), entry?.revision ?? 0)) !== undefined
  }

  /**
   * Returns the ledger of a tree and the revision that a write must expect. `undefined` if the stored value cannot be read, or if the server wrote it
   * on a client's behalf. A new ledger would grant the whole budget again, so the tree gets nothing more.
   */
  async #readLedger(key: string): Promise<{ value?: BudgetLedger; revision: number } | undefined> {
    const entry = await this.#table.get(key)
    if (entry) return entry
    const stored = await this.#table.bytesOf(key)
    if (stored?.bounced) return undefined
    if (!stored?.data) return { revision: stored?.revision ?? 0 }
    const decoded = decode(stored.data)
    const parsed = decoded.ok ? budgetLedger.safeParse(decoded.value) : undefined
    return parsed?.success ? { value: parsed.data, revision: stored.revision } : undefined
  }

  #scheduleRound(): void {
    this.#timer = this.#context.deps.clock.after(this.#context.options.budgets_ms, () => {
      void this.#round().catch((error: unknown) => this.#context.deps.log.warn({ err: error }, 'budgets not cleaned up'))
    })
  }

  async #round(): Promise<void> {
    try {
      if (this.#rounds++ % ROUNDS_PER_SCAN === 0) await this.#findOthers()
      for (const [name, root] of this.#unsure) if (!this.#stopped && (await this.#settle(root))) this.#unsure.delete(name)
    } finally {
      if (!this.#stopped) this.#scheduleRound()
    }
  }

  async #findOthers(): Promise<void> {
    for await (const { key, value } of this.#table.entries()) {
      const root = parseKey(key.replaceAll('.', '/'))
      if (root && new Ledger(value).unsure().length > 0) this.#unsure.set(keyText(root), root)
    }
  }

  /** Returns true once every charge of this tree is settled. */
  async #settle(root: PassKey): Promise<boolean> {
    const entry = await this.#table.get(keyOf(root))
    const unsure = new Ledger(entry?.value).unsure()
    const old = unsure.filter(({ at }) => this.#context.deps.clock.now() - at >= MIN_AGE_MS)
    const outcomes = await Promise.all(old.map(async ({ pass }) => ({ pass, outcome: await this.#outcomeOf(pass) })))
    const known = outcomes.filter(({ outcome }) => outcome !== 'unknown')
    if (known.length > 0) {
      await this.#change(root, (ledger) => {
        for (const { pass, outcome } of known) outcome === 'work' ? ledger?.settle(pass) : ledger?.release(pass)
      })
    }
    return known.length === unsure.length
  }

  /** Returns the outcome of a charged pass. `unknown` if it is held, or its request is not answered yet. */
  async #outcomeOf(pass: string): Promise<'work' | 'nothing' | 'unknown'> {
    const key = parseKey(pass)
    if (!key) return 'nothing'
    const { journal } = foldJournal(await readSteps(this.#context.deps.bus, key), this.#context.rules)
    if (journal.state === 'open') return 'work'
    if (journal.state !== 'done') return 'unknown'
    return journal.work ? 'work' : 'nothing'
  }
}

function keyOf({ originator, subagent, id }: PassKey): string {
  return `${originator}.${subagent}.${id}`
}
