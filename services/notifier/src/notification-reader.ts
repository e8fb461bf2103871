import type { Bus } from '@passover/bus'
import type { JournalRules, ReturnValidity } from '@passover/core'
import { type DecisionFact, keyText, type Notice, type Step } from '@passover/schemas'
import { countedAtLeader, type ReadPass, readNotifications } from './parse-notifications.js'

/** A pass that is forgotten is read once more. */
const MAX_READS = 1_024

/**
 * Reads passes and returns the notices of their messages. A subagent may store any number of returns that count for nothing, in a journal of
 * megabytes. One read serves all that are stored by then, and there is one read for each subagent at a time.
 */
export class NotificationReader {
  /** How far passes were read lately, and the return that counts. */
  readonly #reads = new Map<string, Pick<ReadPass, 'seen' | 'returned'>>()
  /** Subagents of which a journal is read for a return that may count for nothing. */
  readonly #doubted = new Set<string>()

  constructor(
    private readonly bus: Bus,
    private readonly rules: JournalRules,
  ) {}

  /**
   * Tells whether a return that a worker stored counts, by a few small reads.
   *
   * @throws BusReadError where it cannot be judged now
   */
  judged(fact: Step | DecisionFact): Promise<ReturnValidity> {
    return countedAtLeader(this.bus, fact)
  }

  /**
   * Returns the notices of a message; undefined: another return of its subagent is being read, so try again.
   *
   * @throws BusReadError where the pass cannot be read now
   */
  async noticesOf(fact: Step | DecisionFact, judged?: ReturnValidity): Promise<Notice[] | undefined> {
    const counted = judged ?? (await this.judged(fact))
    if (counted === 'nothing') return []
    return counted === 'counts' ? await this.#read(fact) : await this.#readDoubted(fact)
  }

  async #read(step: Pick<Step, 'key' | 'sequence'>): Promise<Notice[]> {
    const { notices, ...read } = await readNotifications(this.bus, step, this.rules)
    this.#reads.set(keyText(step.key), read)
    for (const oldest of this.#reads.keys()) if (this.#reads.size > MAX_READS) this.#reads.delete(oldest)
    return notices
  }

  async #readDoubted(step: Pick<Step, 'key' | 'sequence'>): Promise<Notice[] | undefined> {
    const read = this.#reads.get(keyText(step.key))
    if (read && step.sequence <= read.seen && step.sequence !== read.returned) return []
    const { subagent } = step.key
    if (this.#doubted.has(subagent)) return undefined
    this.#doubted.add(subagent)
    try {
      return await this.#read(step)
    } finally {
      this.#doubted.delete(subagent)
    }
  }
}
