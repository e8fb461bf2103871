import { decode, type Table } from '@passover/bus'
import { type BudgetRequest, type ChargeResult, foldJournal, Ledger } from '@passover/core'
import { type BudgetLedger, budgetLedger, keyText, type PassKey, parseKey } from '@passover/schemas'
import { readSteps } from '../messages/read-journal.js'
import type { BaseContext } from '../runtime/base-context.js'

/** A charge younger than this is looked after by who made it. */
const MIN_AGE_MS = 2_000
/** Ledgers that others made, a dispatcher that died among them, are looked through this often. */
const ROUNDS_PER_SCAN = 60

interface Job {
  /** `undefined`: what the tree took so far is not known. */
  change: (ledger: Ledger | undefined) => void
  done: () => void
  failed: (error: unknown) => void
}

/**
 * The ledgers of budgeted trees: charged by compare-and-set before a work step, and released when the pass ends without one.
 * A crash in between is mended here: a charge whose work is not known is looked at until its journal says what became of it.
 */
export class BudgetStore {
  readonly #context: BaseContext
  readonly #table: Table<BudgetLedger>
  readonly #jobs = new Map<string, Job[]>()
  /** Roots whose ledgers hold charges that are not known to have become work. */
  readonly #unsure = new Map<string, PassKey>()
  /** The bucket was made after trees that had a ledger began: of those none is known that is not in it. Server ms. */
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
    budgets.#later()
    return budgets
  }

  /**
   * Takes what a pass asks for from every budget above it, or tells which has nothing left. `taken`: another request of its id did, below another
   * parent. Throws where the bucket cannot be written.
   */
  async charge(root: PassKey, asking: BudgetRequest): Promise<ChargeResult | 'taken'> {
    if (await this.#isLost(root)) return { ok: false, lost: true }
    let charged: ChargeResult | 'taken' | undefined
    await this.#change(root, (ledger) => {
      charged = ledger?.charge(asking) ?? { ok: false, lost: true }
    })
    if (!charged) throw new TypeError('a change that was made was not run')
    if (charged !== 'taken' && charged.ok) this.#unsure.set(keyText(root), root)
    return charged
  }

  /** What was in the bucket before this (server ms) is gone: trees that began before are granted nothing more (decision 55). */
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

  /** Changes of one tree are made together, one write at a time: siblings that come at once do not race one another here. */
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

  /** False: somebody else wrote meanwhile. */
  async #write(root: PassKey, jobs: Job[]): Promise<boolean> {
    const key = keyOf(root)
    const standing = await this.#standing(key)
    const ledger = standing && new Ledger(standing.value)
    for (const { change } of jobs) change(ledger)
    return !ledger?.changed || (await this.#table.update(key, ledger.data(), standing?.revision ?? 0)) !== undefined
  }

  /**
   * The ledger of a tree, and the revision that a write must name. Undefined: there is a value that cannot be read, or that the server wrote on a
   * client's behalf. A new ledger in its place would grant everything again, so the tree is granted nothing more.
   */
  async #standing(key: string): Promise<{ value?: BudgetLedger; revision: number } | undefined> {
    const entry = await this.#table.get(key)
    if (entry) return entry
    const stored = await this.#table.bytesOf(key)
    if (stored?.bounced) return undefined
    if (!stored?.data) return { revision: stored?.revision ?? 0 }
    const decoded = decode(stored.data)
    const parsed = decoded.ok ? budgetLedger.safeParse(decoded.value) : undefined
    return parsed?.success ? { value: parsed.data, revision: stored.revision } : undefined
  }

  #later(): void {
    this.#timer = this.#context.deps.clock.after(this.#context.options.budgets_ms, () => {
      void this.#round().catch((error: unknown) => this.#context.deps.log.warn({ err: error }, 'budgets not looked after'))
    })
  }

  async #round(): Promise<void> {
    try {
      if (this.#rounds++ % ROUNDS_PER_SCAN === 0) await this.#findOthers()
      for (const [name, root] of this.#unsure) if (!this.#stopped && (await this.#settle(root))) this.#unsure.delete(name)
    } finally {
      if (!this.#stopped) this.#later()
    }
  }

  async #findOthers(): Promise<void> {
    for await (const { key, value } of this.#table.entries()) {
      const root = parseKey(key.replaceAll('.', '/'))
      if (root && new Ledger(value).unsure().length > 0) this.#unsure.set(keyText(root), root)
    }
  }

  /** True when every charge of this tree is settled. */
  async #settle(root: PassKey): Promise<boolean> {
    const entry = await this.#table.get(keyOf(root))
    const unsure = new Ledger(entry?.value).unsure()
    const old = unsure.filter(({ at }) => this.#context.deps.clock.now() - at >= MIN_AGE_MS)
    const became = await Promise.all(old.map(async ({ pass }) => ({ pass, what: await this.#becameOf(pass) })))
    const known = became.filter(({ what }) => what !== 'unknown')
    if (known.length > 0) {
      await this.#change(root, (ledger) => {
        for (const { pass, what } of known) what === 'work' ? ledger?.settle(pass) : ledger?.release(pass)
      })
    }
    return known.length === unsure.length
  }

  /** `unknown`: it is held, or its request is still to be answered. */
  async #becameOf(pass: string): Promise<'work' | 'nothing' | 'unknown'> {
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
