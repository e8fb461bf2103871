import { keyText } from '@passover/schemas'
import { ChurnMap } from '../runtime/churn-map.js'
import {
  begunStep,
  cascade,
  type EndVerdict,
  expiry,
  type LiveJournal,
  type OpenPass,
  orderOf,
  type PendingRequest,
  verdictOf,
} from './open-pass.js'
import type { TimerQueue } from './timer-queue.js'

/** Passes that began and did not end, linked to their parents, with the time at which each is due. */
export class PassTree {
  readonly #passes = new ChurnMap<string, OpenPass>()
  readonly #timers: TimerQueue<OpenPass | PendingRequest>

  constructor(timers: TimerQueue<OpenPass | PendingRequest>) {
    this.#timers = timers
  }

  get size(): number {
    return this.#passes.size
  }

  has(text: string): boolean {
    return this.#passes.has(text)
  }

  get(text: string): OpenPass | undefined {
    return this.#passes.get(text)
  }

  values(): Iterable<OpenPass> {
    return this.#passes.values()
  }

  /** Returns the sequence of the subagent's lowest open work. Scans all open passes. */
  lowestWork(subagent: string): number | undefined {
    let lowest: number | undefined
    for (const { key, journal } of this.#passes.values()) {
      if (journal.state !== 'open' || key.subagent !== subagent) continue
      lowest = Math.min(lowest ?? journal.work.sequence, journal.work.sequence)
    }
    return lowest
  }

  /** Returns the pass that this one names as its parent, if that is open. */
  parentOf(journal: LiveJournal): OpenPass | undefined {
    const { parent } = begunStep(journal)
    return parent && this.#passes.get(keyText(parent))
  }

  add(pass: OpenPass, time: number): void {
    this.#passes.set(pass.text, pass)
    this.#place(pass, time)
  }

  /** Adds the passes of a snapshot. A child may precede its parent, so all are stored before the first one is linked. */
  restore(passes: readonly OpenPass[]): void {
    for (const pass of passes) this.#passes.set(pass.text, pass)
    for (const pass of passes) this.#place(pass, begunStep(pass.journal).time)
  }

  /** Sets the journal after a step. If the step counts, the times of its children or its own may have changed. */
  advance(pass: OpenPass, journal: LiveJournal, time: number): void {
    const before = pass.journal
    pass.journal = journal
    if (before.valid === journal.valid) return
    if (begunStep(before) === begunStep(journal)) {
      for (const child of pass.below ?? []) this.#schedule(child, time)
      return
    }
    this.parentOf(before)?.below?.delete(pass)
    this.#place(pass, time)
  }

  cancel(pass: OpenPass, time: number): void {
    pass.cancelled = true
    this.#schedule(pass, time)
  }

  /** Returns how a due pass ends. */
  endingOf({ journal, cancelled }: OpenPass, now: number): EndVerdict {
    const parent = this.parentOf(journal)
    return verdictOf(journal, { cancelled, parent }, now) ?? expiry(journal, parent)
  }

  /** Removes a pass. Open passes below it become due. */
  end(text: string, time: number): OpenPass | undefined {
    const pass = this.#passes.take(text)
    if (!pass) return undefined
    this.parentOf(pass.journal)?.below?.delete(pass)
    this.#timers.drop(pass)
    for (const child of pass.below ?? []) this.#schedule(child, time)
    return pass
  }

  /** Links a pass to its parent and schedules it. */
  #place(pass: OpenPass, time: number): void {
    pass.hurried = false
    const parent = this.parentOf(pass.journal)
    if (parent) {
      parent.below ??= new Set()
      parent.below.add(pass)
    }
    this.#schedule(pass, time)
  }

  #schedule(pass: OpenPass, time: number): void {
    const parent = this.parentOf(pass.journal)
    const hurry = pass.cancelled || cascade(pass.journal, parent) !== undefined
    if (hurry && pass.hurried) return
    pass.hurried = hurry
    this.#timers.set(pass, hurry ? time : expiry(pass.journal, parent).at, orderOf(pass))
  }
}
