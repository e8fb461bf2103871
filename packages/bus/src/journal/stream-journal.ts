import type { PassKey, Step } from '@passover/schemas'
import { Backoff } from '../clock/backoff.js'
import { machineTiming, type Timing } from '../clock/timing.js'
import { API_ERROR } from '../messaging/jetstream-api.js'
import type { Subjects } from '../subjects/subjects.js'
import { BusReadError, JournalTooLong } from '../types/errors.js'
import type { Advanced, AdvanceOptions, Cut, Journal, Plan } from '../types/journal.js'
import type { PublishMessage, PublishResult, StoredMessage } from '../wire/messages.js'
import { isOver, type JournalApi, JournalReader, type Until } from './journal-reader.js'

/** Publish calls that a journal requires. `send` calls `settle` exactly once, possibly before it returns. */
export interface JournalPublisher {
  publish(message: PublishMessage): Promise<PublishResult>
  send(message: PublishMessage, settle: (outcome: PublishResult) => void): void
}

type Plans<T> = (steps: Step[], tries: number, refused_by?: number) => Plan<T>

const DEADLINE_MS = 15_000

/**
 * Reads and advances journals. Contains no rules: the caller's plan decides what to publish next and sets its guard. `Publisher` writes the guard as a
 * header.
 */
export class StreamJournal implements Journal {
  readonly #api: JournalApi
  readonly #journals: JournalReader
  readonly #publisher: JournalPublisher
  readonly #subjects: Subjects
  readonly #timing: Timing

  constructor({ api, publisher }: { api: JournalApi; publisher: JournalPublisher }, subjects: Subjects, timing: Timing = machineTiming) {
    this.#api = api
    this.#journals = new JournalReader(api, subjects)
    this.#publisher = publisher
    this.#timing = timing
    this.#subjects = subjects
  }

  read(key: PassKey, from = 1): Promise<Step[]> {
    return this.#journals.read(key, from)
  }
  glimpse(key: PassKey): Promise<Step[]> {
    return this.#journals.glimpse(key)
  }
  last(subject: string): Promise<StoredMessage | undefined> {
    return this.#journals.last(subject)
  }
  first(filter: string, from: number): Promise<StoredMessage | undefined> {
    return this.#journals.first(filter, from)
  }
  newest(filter: string): Promise<StoredMessage | undefined> {
    return this.#journals.newest(filter)
  }
  message(sequence: number): Promise<StoredMessage | undefined> {
    return this.#journals.message(sequence)
  }
  history(key: PassKey, from = 1, onCut?: (what: Cut) => void): Promise<StoredMessage[]> {
    return this.#journals.history(key, from, onCut)
  }

  async deleteMessage(sequence: number, how?: 'overwrite'): Promise<boolean> {
    const reply = await this.#api.call(`STREAM.MSG.DELETE.${this.#subjects.stream}`, { seq: sequence, no_erase: how === undefined })
    if (reply.ok) return true
    const stands = reply.err_code === API_ERROR.deleteFailed && (await this.message(sequence)) !== undefined
    if (API_ERROR.messageGone.has(reply.err_code) && !stands) return true
    throw new BusReadError(`delete ${sequence}: ${reply.description} (${reply.err_code})`, 'refused_by_server')
  }

  /** Advances with a single promise if the first publish succeeds, as nearly every one does. */
  advance<T>(key: PassKey, plan: Plans<T>, options: AdvanceOptions<T>): Promise<Advanced<T>> {
    const deadline = this.#timing.monotonic() + (options.deadline_ms ?? DEADLINE_MS)
    return new Promise((resolve, reject) => {
      const first = plan(options.known ?? [], 0)
      if ('done' in first) return resolve({ ok: true, value: first.done })
      this.#publisher.send(first.publish, (outcome) => {
        if (outcome.kind === 'stored') storedAs(first, outcome.sequence, { resolve, reject })
        else this.#planAnew(key, plan, { ...options, deadline, outcome }).then(resolve, reject)
      })
    })
  }

  /** Continues after a publish whose outcome was not `stored`. */
  async #planAnew<T>(key: PassKey, plan: Plans<T>, options: AdvanceOptions<T> & { deadline: number; outcome: PublishResult }) {
    const until: Until = { deadline: options.deadline, timing: this.#timing, signal: options.signal }
    const backoff = new Backoff(this.#timing)
    for (let tries = 1, { outcome } = options; ; tries += 1) {
      if (outcome.kind === 'refused' && outcome.reason !== 'closed') return { ok: false as const, outcome }
      // A lost guard can be read at once; any other outcome means that the server has to recover first.
      if (outcome.kind !== 'lost' || tries > 1) await backoff.wait(options.signal)
      const read = await this.#readUntil(key, options, { ...until, backoff })
      if (!read || isOver(until)) return { ok: false as const, outcome }
      const next = read.cut
        ? options.too_long?.(read.steps, tries)
        : plan(read.steps, tries, outcome.kind === 'lost' ? outcome.last : undefined)
      if (!next) return { ok: false as const, outcome: { kind: 'unknown' as const, description: 'the journal is too long to read' } }
      if ('done' in next) return { ok: true as const, value: next.done }
      outcome = await this.#publisher.publish(next.publish)
      if (outcome.kind === 'stored') return { ok: true as const, value: next.stored(outcome.sequence) }
    }
  }

  /** Reads until an answer comes. Returns `undefined` if the deadline passed or the caller aborted. */
  async #readUntil(
    key: PassKey,
    options: Pick<AdvanceOptions, 'read' | 'from'>,
    until: Until & { backoff: Backoff },
  ): Promise<{ steps: Step[]; cut: boolean } | undefined> {
    for (;;) {
      try {
        const steps = options.read === 'leader' ? this.#journals.read(key, options.from ?? 1, until) : this.#journals.glimpse(key, until)
        return { steps: await steps, cut: false }
      } catch (error) {
        if (error instanceof JournalTooLong) return { steps: error.steps, cut: true }
        if (!(error instanceof BusReadError) || error.reason === 'permission' || error.reason === 'closed') throw error
      }
      if (isOver(until)) return undefined
      await until.backoff.wait(until.signal)
    }
  }
}

function storedAs<T>(
  planned: Exclude<Plan<T>, { done: T }>,
  sequence: number,
  { resolve, reject }: { resolve: (advanced: Advanced<T>) => void; reject: (error: unknown) => void },
): void {
  try {
    resolve({ ok: true, value: planned.stored(sequence) })
  } catch (error) {
    reject(error)
  }
}
