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

/** Passes that are looked up at once: nearly all the time goes into waiting for answers. */
const CONCURRENCY = 96
/** Of those so many for one sender: what one agent makes expensive leaves room for the others. */
const CONCURRENCY_OF_ONE = 64
/** Passes that are read at once, each with many reads. */
const MAX_LOADS = 16
/** Passes, some 300 bytes each. The reader does not wait for what one agent does to fewer of them. */
const MAX_WAITING = 65_536
/** Steps remembered of a pass that waits to be looked up; of one with more all is read. */
const MAX_STEPS = 64
const RETRY_DELAY_MS = 500

type Recorded = Step | DecisionFact | EventFact

export interface PassReloaderDeps extends LoadDeps {
  clock: Clock
  log: Logger
  /** Sequence of the last message that the reader took: a pass is read up to there, so that nothing in between can be missed. */
  position: () => number
  /** Passes that more may be stored of than this process remembers. */
  early: Pick<EarlyIdFilter, 'add' | 'has'>
  /** Whether a pass of this key has a record that is more than such a refusal. */
  hasRecord: (key: PassKey) => Promise<boolean>
  /** What to do with what was read; it is not wanted any more once this settles. False: the process ends. */
  onLoaded: (loaded: LoadedPass) => Promise<boolean>
  /** Told of each step of a pass that nothing began, and why it is impossible. */
  onImpossible: (step: Step, what: string) => void
}

interface PendingReload {
  key: PassKey
  sender: string
  /** Lowest sequence that made it wanted. */
  since: number
  request: number | undefined
  /** Nothing was heard of it but that a request for it came too late. */
  expired: boolean
  /** Something was heard that can begin a pass. */
  begins: boolean
  /** Messages heard of it, and of those the steps. */
  heard: number
  steps: Step[]
}

/**
 * Reads passes from the stream again about which something new was heard that are not in memory: after a restart, long after their end,
 * or without a beginning that can be trusted. Each pass at most once at a time, however much is heard of it, and in turns of those who sent it.
 *
 * An agent can store any number of messages about passes that nobody asked for. So first a few exact reads find out whether anything began
 * the pass at all. Where nothing did, its messages say nothing, and the id is remembered: later ones cost no read.
 */
export class PassReloader {
  /** By sender, the one whose turn it is first; within, by pass. */
  private readonly waiting = new Map<string, Map<string, PendingReload>>()
  private readonly waitingOf = new Map<string, PendingReload>()
  private readonly running = new Map<string, PendingReload>()
  private readonly runningOf = new Map<string, number>()
  private readonly loads = pLimit(MAX_LOADS)
  private waiters: (() => void)[] = []
  private stopped = false
  private readonly ghosts: GhostPasses

  /** `most`: ids of passes that nothing began, of all senders together. */
  constructor(
    private readonly deps: PassReloaderDeps,
    most?: number,
  ) {
    this.ghosts = new GhostPasses(most, (text) => {
      const key = parseKey(text)
      if (key) deps.early.add(key)
    })
  }

  /** Lowest sequence whose pass is still to be read. */
  get lowest(): number | undefined {
    let lowest: number | undefined
    for (const { since } of this.all()) lowest = Math.min(lowest ?? since, since)
    return lowest
  }

  get size(): number {
    return this.waitingOf.size + this.running.size
  }

  /** Requests without an answer among them. */
  get requests(): number {
    return this.waiting.get(SYSTEM)?.size ?? 0
  }

  /** Whether something may be stored of a pass that is not in memory: its first step alone does not tell all of it. */
  knows(key: PassKey, text = keyText(key)): boolean {
    return this.ghosts.has(text) || this.waitingOf.has(text) || this.running.has(text) || this.deps.early.has(key)
  }

  /** Whether nothing began a pass (a `keyText`), as far as the stream was read. False: it is not known. */
  isKnownGhost(text: string): boolean {
    return this.ghosts.has(text)
  }

  /** Takes a message of a pass that is not in memory. */
  hear(fact: Recorded, { expired = false }: { expired?: boolean } = {}): void {
    const text = keyText(fact.key)
    const begins = mayBegin(fact)
    if (begins) this.ghosts.delete(text)
    const heard = begins ? undefined : this.ghosts.countMessage(text)
    if (heard !== undefined) {
      if (fact.type === 'step') this.judge(text, [fact], heard)
      return
    }
    const wanted = this.wanted(text, { key: fact.key, sender: senderOf(fact), since: fact.sequence, request: undefined, expired })
    wanted.begins ||= begins
    wanted.heard++
    if (fact.type === 'step' && wanted.steps.length <= MAX_STEPS) wanted.steps.push(fact)
    this.start()
  }

  /** Has a pass read that was asked for, and which nobody answered. */
  want(key: PassKey, request: number): void {
    this.wanted(keyText(key), { key, sender: SYSTEM, since: request, request, expired: false })
    this.start()
  }

  /** A promise when the reader must wait for some of them. */
  backpressure(): Promise<void> | undefined {
    return this.waitingOf.size > MAX_WAITING && !this.stopped ? new Promise((done) => this.waiters.push(done)) : undefined
  }

  stop(): void {
    this.stopped = true
    for (const done of this.waiters.splice(0)) done()
  }

  private *all(): Generator<PendingReload> {
    yield* this.waitingOf.values()
    yield* this.running.values()
  }

  private wanted(text: string, asked: Pick<PendingReload, 'key' | 'sender' | 'since' | 'request' | 'expired'>): PendingReload {
    const known = this.waitingOf.get(text)
    if (known) {
      known.request ??= asked.request
      known.expired &&= asked.expired
      return known
    }
    const wanted: PendingReload = { ...asked, begins: false, heard: 0, steps: [] }
    this.waitingOf.set(text, wanted)
    const queue = this.waiting.get(wanted.sender)
    if (queue) queue.set(text, wanted)
    else this.waiting.set(wanted.sender, new Map([[text, wanted]]))
    return wanted
  }

  private unwanted(text: string, { sender }: PendingReload): void {
    this.waitingOf.delete(text)
    const queue = this.waiting.get(sender)
    queue?.delete(text)
    if (queue?.size === 0) this.waiting.delete(sender)
  }

  private start(): void {
    while (!this.stopped && this.running.size < CONCURRENCY) {
      const found = this.nextTurn()
      if (!found) return
      const [text, wanted] = found
      const { sender } = wanted
      this.unwanted(text, wanted)
      this.running.set(text, wanted)
      this.runningOf.set(sender, (this.runningOf.get(sender) ?? 0) + 1)
      void this.untilLoaded(text, wanted).then(() => this.onDone(text, sender))
    }
  }

  /** The next pass of the sender whose turn it is; undefined: all that wait must wait for something that is under way. */
  private nextTurn(): [text: string, wanted: PendingReload] | undefined {
    for (const [sender, queue] of this.waiting) {
      if ((this.runningOf.get(sender) ?? 0) >= CONCURRENCY_OF_ONE) continue
      for (const found of queue) {
        if (this.running.has(found[0])) continue
        this.waiting.delete(sender)
        this.waiting.set(sender, queue)
        return found
      }
    }
    return undefined
  }

  private onDone(text: string, sender: string): void {
    this.running.delete(text)
    const others = (this.runningOf.get(sender) ?? 1) - 1
    if (others > 0) this.runningOf.set(sender, others)
    else this.runningOf.delete(sender)
    if (this.waitingOf.size <= MAX_WAITING / 2) for (const done of this.waiters.splice(0)) done()
    this.start()
  }

  private async untilLoaded(text: string, wanted: PendingReload): Promise<void> {
    const { deps } = this
    for (let tries = 0; !this.stopped; ) {
      try {
        const request = wanted.request === undefined ? {} : { request: wanted.request }
        if (wanted.expired && (await deps.hasRecord(wanted.key))) return
        // The microtask lets the message that asked be counted as taken.
        await Promise.resolve()
        if (await this.isGhost(wanted)) {
          this.judge(text, wanted.steps, wanted.heard)
          this.remember(text, wanted)
          return
        }
        const loaded = await this.loads(() => loadPass(deps, wanted.key, { up_to: deps.position(), ...request }))
        if (await deps.onLoaded(loaded)) return
      } catch (error) {
        if (!isTransient(error) && ++tries >= MAX_TRIES) {
          deps.log.error({ pass: keyText(wanted.key), err: error }, 'pass given up: no record can be made of it')
          return
        }
        deps.log.warn({ pass: keyText(wanted.key), err: error }, 'pass not read')
        await new Promise<void>((done) => deps.clock.after(RETRY_DELAY_MS, done))
      }
    }
  }

  private async isGhost(wanted: PendingReload): Promise<boolean> {
    return !mustBeRead(wanted) && (await hasNoFirstStep(this.deps, wanted.key))
  }

  /** What was heard meanwhile says no more than what was heard before, but for what can begin a pass. */
  private remember(text: string, { sender, heard }: PendingReload): void {
    const later = this.waitingOf.get(text)
    if (later && mustBeRead(later)) return
    if (later) {
      this.unwanted(text, later)
      this.judge(text, later.steps, heard + later.heard)
    }
    this.ghosts.add(text, sender, heard + (later?.heard ?? 0))
  }

  /** Reports steps of a pass that nothing began. As in its memory, only the first messages of a pass are looked at. */
  private judge(text: string, steps: readonly Step[], heard: number): void {
    if (heard > MAX_NOTED) return
    for (const step of steps) {
      const { ignored } = next(EMPTY_JOURNAL, step, this.deps.rules)
      if (ignored !== undefined) this.deps.onImpossible(step, ignored)
      else this.deps.log.error({ pass: text, sequence: step.sequence }, 'a step that can begin a pass was taken for one that cannot')
    }
  }
}

/** Whether what was heard of a pass does not tell enough, even where nothing began it before. */
function mustBeRead({ request, begins, steps }: PendingReload): boolean {
  return request !== undefined || begins || steps.length > MAX_STEPS
}

/** In whose turn a message is looked after; what the system says of a pass, in that of its parties. */
function senderOf(fact: Recorded): string {
  const sender = fact.type === 'step' ? fact.by : fact.type === 'event' ? fact.sender : fact.person
  return sender === SYSTEM || mayBegin(fact) ? `${fact.key.originator}/${fact.key.subagent}` : sender
}
