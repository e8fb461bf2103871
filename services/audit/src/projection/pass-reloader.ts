import { IndexesUnread } from '@passover/archive'
import type { Clock } from '@passover/core'
import { EMPTY_JOURNAL, next } from '@passover/core'
import { type DecisionFact, type EventFact, keyText, type PassKey, parseKey, type Step, SYSTEM } from '@passover/schemas'
import pLimit from 'p-limit'
import type { Logger } from 'pino'
import { hasNoFirstStep, type LoadDeps, type LoadedPass, loadPass, mayBegin } from '../pass/load-pass.js'
import { MAX_NOTED } from '../pass/pass-memory.js'
import { isTransient, MAX_TRIES } from '../runtime/transient-errors.js'
import type { EarlyIdFilter } from './early-id-filter.js'
import { GhostPasses } from './ghost-passes.js'

/** Maximum number of passes looked up at a time. Nearly all the time is spent waiting for answers. */
const CONCURRENCY = 96
/** Maximum number of lookups for one sender, so that an expensive sender leaves room for the others. */
const CONCURRENCY_OF_ONE = 64
/** Maximum number of passes loaded at a time, each with many reads. */
const MAX_LOADS = 16
/** Number of waiting passes, about 300 bytes each, above which the reader waits. */
const MAX_WAITING = 65_536
/** Maximum number of steps kept for a waiting pass. A pass with more is loaded in full. */
const MAX_STEPS = 64
const RETRY_DELAY_MS = 500

type Recorded = Step | DecisionFact | EventFact

export interface PassReloaderDeps extends LoadDeps {
  clock: Clock
  log: Logger
  /** Sequence of the last message that the reader took. A pass is loaded up to there, so nothing in between is missed. */
  position: () => number
  /** Passes that may have more stored messages than this process remembers. */
  early: Pick<EarlyIdFilter, 'add' | 'has'>
  /** True if a pass with this key has a record that shows more than the refusal of an expired request. */
  hasRecord: (key: PassKey) => Promise<boolean>
  /** Handles a loaded pass; the reload ends when it resolves to true. Resolves to false if the record could not be written. */
  onLoaded: (loaded: LoadedPass) => Promise<boolean>
  /** Called for each step of a pass without a first step, with the reason why the step is impossible. */
  onImpossible: (step: Step, what: string) => void
}

interface PendingReload {
  key: PassKey
  sender: string
  /** Lowest sequence that made the reload necessary. */
  since: number
  request: number | undefined
  /** True if the only message read so far is the refusal of an expired request. */
  expired: boolean
  /** True if a message that can begin a pass was read. */
  begins: boolean
  /** Number of messages read. `steps` holds the steps among them, up to a limit. */
  heard: number
  steps: Step[]
}

/**
 * Reloads passes that are not in memory when a new message about them arrives: after a restart, long after their end, or without a trusted first
 * step. Each pass is loaded at most once at a time, however many messages arrive, and senders take turns.
 *
 * An agent can store any number of messages about passes that were never requested. A few exact reads therefore check first whether a first
 * step exists. If not, the messages have no effect and the id is remembered, so later messages cost no read.
 */
export class PassReloader {
  readonly #deps: PassReloaderDeps
  /** Waiting passes by sender, then by pass. The sender whose turn it is comes first. */
  readonly #waiting = new Map<string, Map<string, PendingReload>>()
  readonly #waitingOf = new Map<string, PendingReload>()
  /** Waiting passes that need indexes of the archive that are not read yet. They get no turn until then, so they hold up no others. */
  readonly #parked = new Map<string, PendingReload>()
  #indexing: Promise<void> | undefined
  readonly #running = new Map<string, PendingReload>()
  readonly #runningOf = new Map<string, number>()
  readonly #loads = pLimit(MAX_LOADS)
  #waiters: (() => void)[] = []
  #stopped = false
  readonly #ghosts: GhostPasses

  /** `most` is the maximum number of ghost ids kept for all senders together. */
  constructor(deps: PassReloaderDeps, most?: number) {
    this.#deps = deps
    this.#ghosts = new GhostPasses(most, (text) => {
      const key = parseKey(text)
      if (key) deps.early.add(key)
    })
  }

  /** Lowest sequence whose pass is still to be loaded. */
  get lowest(): number | undefined {
    let lowest: number | undefined
    for (const { since } of this.#all()) lowest = Math.min(lowest ?? since, since)
    return lowest
  }

  get size(): number {
    return this.#waitingOf.size + this.#running.size
  }

  /** Number of waiting passes whose request has no answer. */
  get requests(): number {
    return this.#waiting.get(SYSTEM)?.size ?? 0
  }

  /** True if a pass that is not in memory may have stored messages besides its first step, so that the step alone is not enough. */
  knows(key: PassKey, text = keyText(key)): boolean {
    return this.#ghosts.has(text) || this.#waitingOf.has(text) || this.#running.has(text) || this.#deps.early.has(key)
  }

  /** True if the pass (a `keyText`) is known to have no first step in what was read so far. False if unknown. */
  isKnownGhost(text: string): boolean {
    return this.#ghosts.has(text)
  }

  /** Handles a message of a pass that is not in memory. */
  hear(fact: Recorded, { expired = false }: { expired?: boolean } = {}): void {
    const text = keyText(fact.key)
    const begins = mayBegin(fact)
    if (begins) this.#ghosts.delete(text)
    const heard = begins ? undefined : this.#ghosts.countMessage(text)
    if (heard !== undefined) {
      if (fact.type === 'step') this.#judge(text, [fact], heard)
      return
    }
    const reload = this.#wanted(text, { key: fact.key, sender: senderOf(fact), since: fact.sequence, request: undefined, expired })
    reload.begins ||= begins
    reload.heard++
    if (fact.type === 'step' && reload.steps.length <= MAX_STEPS) reload.steps.push(fact)
    // With its first step, the pass may need no index.
    if (begins) this.#unpark(text)
    this.#start()
  }

  /** Schedules the load of a pass whose request has no answer. */
  want(key: PassKey, request: number): void {
    const text = keyText(key)
    this.#wanted(text, { key, sender: SYSTEM, since: request, request, expired: false })
    this.#unpark(text)
    this.#start()
  }

  /** Returns a promise if the reader must wait until fewer passes are waiting. */
  backpressure(): Promise<void> | undefined {
    return this.#waitingOf.size > MAX_WAITING && !this.#stopped ? new Promise((done) => this.#waiters.push(done)) : undefined
  }

  stop(): void {
    this.#stopped = true
    for (const done of this.#waiters.splice(0)) done()
  }

  *#all(): Generator<PendingReload> {
    yield* this.#waitingOf.values()
    yield* this.#running.values()
  }

  #wanted(text: string, asked: Pick<PendingReload, 'key' | 'sender' | 'since' | 'request' | 'expired'>): PendingReload {
    const known = this.#waitingOf.get(text)
    if (known) {
      known.request ??= asked.request
      known.expired &&= asked.expired
      return known
    }
    const reload: PendingReload = { ...asked, begins: false, heard: 0, steps: [] }
    this.#waitingOf.set(text, reload)
    this.#enqueue(text, reload)
    return reload
  }

  #enqueue(text: string, reload: PendingReload): void {
    const queue = this.#waiting.get(reload.sender)
    if (queue) queue.set(text, reload)
    else this.#waiting.set(reload.sender, new Map([[text, reload]]))
  }

  /** Sets a pass aside until all indexes of the archive are read. */
  #park(text: string, reload: PendingReload): void {
    const later = this.#waitingOf.get(text)
    // Messages that arrived during the lookup have a turn of their own.
    if (later) {
      prepend(reload, later)
      return
    }
    this.#waitingOf.set(text, reload)
    this.#parked.set(text, reload)
    this.#indexing ??= this.#untilIndexed()
  }

  #unpark(text: string): void {
    const reload = this.#parked.get(text)
    if (reload && this.#parked.delete(text)) this.#enqueue(text, reload)
  }

  async #untilIndexed(): Promise<void> {
    const { archive, clock, log } = this.#deps
    while (this.#parked.size > 0 && !this.#stopped) {
      try {
        await archive.finder.prepare()
        for (const text of [...this.#parked.keys()]) this.#unpark(text)
        this.#start()
      } catch (error) {
        log.warn({ passes: this.#parked.size, err: error }, 'passes not read: they need indexes of the archive')
        await new Promise<void>((done) => clock.after(RETRY_DELAY_MS, done))
      }
    }
    this.#indexing = undefined
  }

  #unwanted(text: string, { sender }: PendingReload): void {
    this.#waitingOf.delete(text)
    const queue = this.#waiting.get(sender)
    queue?.delete(text)
    if (queue?.size === 0) this.#waiting.delete(sender)
  }

  #start(): void {
    while (!this.#stopped && this.#running.size < CONCURRENCY) {
      const found = this.#nextTurn()
      if (!found) return
      const [text, reload] = found
      const { sender } = reload
      this.#unwanted(text, reload)
      this.#running.set(text, reload)
      this.#runningOf.set(sender, (this.#runningOf.get(sender) ?? 0) + 1)
      void this.#untilLoaded(text, reload).then(() => this.#onDone(text, sender))
    }
  }

  /** Returns the next pass of the sender whose turn it is, or `undefined` if every waiting pass is blocked by a running one. */
  #nextTurn(): [text: string, wanted: PendingReload] | undefined {
    for (const [sender, queue] of this.#waiting) {
      if ((this.#runningOf.get(sender) ?? 0) >= CONCURRENCY_OF_ONE) continue
      for (const found of queue) {
        if (this.#running.has(found[0])) continue
        this.#waiting.delete(sender)
        this.#waiting.set(sender, queue)
        return found
      }
    }
    return undefined
  }

  #onDone(text: string, sender: string): void {
    this.#running.delete(text)
    const others = (this.#runningOf.get(sender) ?? 1) - 1
    if (others > 0) this.#runningOf.set(sender, others)
    else this.#runningOf.delete(sender)
    if (this.#waitingOf.size <= MAX_WAITING / 2) for (const done of this.#waiters.splice(0)) done()
    this.#start()
  }

  async #untilLoaded(text: string, reload: PendingReload): Promise<void> {
    const deps = this.#deps
    for (let tries = 0; !this.#stopped; ) {
      try {
        const request = reload.request === undefined ? {} : { request: reload.request }
        if (reload.expired && (await deps.hasRecord(reload.key))) return
        // Yields once, so that the message that caused the reload counts as taken.
        await Promise.resolve()
        if (await this.#isGhost(reload)) {
          this.#judge(text, reload.steps, reload.heard)
          this.#remember(text, reload)
          return
        }
        const loaded = await this.#loads(() => loadPass(deps, reload.key, { up_to: deps.position(), ...request }))
        if (await deps.onLoaded(loaded)) return
      } catch (error) {
        if (error instanceof IndexesUnread) return this.#park(text, reload)
        if (!isTransient(error) && ++tries >= MAX_TRIES) {
          deps.log.error({ pass: keyText(reload.key), err: error }, 'pass skipped: no record can be built from its messages')
          return
        }
        deps.log.warn({ pass: keyText(reload.key), err: error }, 'pass not read')
        await new Promise<void>((done) => deps.clock.after(RETRY_DELAY_MS, done))
      }
    }
  }

  async #isGhost(reload: PendingReload): Promise<boolean> {
    return !mustBeRead(reload) && (await hasNoFirstStep(this.#deps, reload.key))
  }

  /** Remembers a ghost. Messages that arrived during the lookup change nothing, unless one of them can begin a pass. */
  #remember(text: string, { sender, heard }: PendingReload): void {
    const later = this.#waitingOf.get(text)
    if (later && mustBeRead(later)) return
    if (later) {
      this.#unwanted(text, later)
      this.#judge(text, later.steps, heard + later.heard)
    }
    this.#ghosts.add(text, sender, heard + (later?.heard ?? 0))
  }

  /** Reports the steps of a pass without a first step. Only the first `MAX_NOTED` messages of a pass count, as in `PassMemory`. */
  #judge(text: string, steps: readonly Step[], heard: number): void {
    if (heard > MAX_NOTED) return
    for (const step of steps) {
      const { ignored } = next(EMPTY_JOURNAL, step, this.#deps.rules)
      if (ignored !== undefined) this.#deps.onImpossible(step, ignored)
      else this.#deps.log.error({ pass: text, sequence: step.sequence }, 'first step of a pass was mistaken for a later step')
    }
  }
}

/** True if a pass must be loaded even though the messages read so far do not show a first step. */
function mustBeRead({ request, begins, steps }: PendingReload): boolean {
  return request !== undefined || begins || steps.length > MAX_STEPS
}

/** Adds what was read of a pass before to its later reload. */
function prepend(earlier: PendingReload, later: PendingReload): void {
  later.since = earlier.since
  later.request ??= earlier.request
  later.expired &&= earlier.expired
  later.begins ||= earlier.begins
  later.heard += earlier.heard
  later.steps = [...earlier.steps, ...later.steps].slice(0, MAX_STEPS + 1)
}

/** Returns the sender in whose turn a message is handled. Messages of the system count for the parties of the pass. */
function senderOf(fact: Recorded): string {
  const sender = fact.type === 'step' ? fact.by : fact.type === 'event' ? fact.sender : fact.person
  return sender === SYSTEM || mayBegin(fact) ? `${fact.key.originator}/${fact.key.subagent}` : sender
}
