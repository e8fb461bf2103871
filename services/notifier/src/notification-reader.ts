import type { Bus } from '@passover/bus'
import type { JournalRules, ReturnValidity } from '@passover/core'
import { type DecisionFact, keyText, type Notice, type Step } from '@passover/schemas'
import { countedAtLeader, type ReadPass, readNotifications } from './parse-notifications.js'

/** Maximum number of passes whose last read is remembered. A forgotten pass is read again. */
const MAX_READS = 1_024

/**
 * Reads passes and returns the notices of their messages. A subagent may store any number of returns that do not count, in a journal of several
 * megabytes. One read therefore serves all messages stored by then, and at most one such read runs per subagent.
 */
export class NotificationReader {
  readonly #bus: Bus
  readonly #rules: JournalRules
  /** Last sequence read and counting return, for passes that were read recently. */
  readonly #reads = new Map<string, Pick<ReadPass, 'seen' | 'returned'>>()
  /** Subagents with a read in progress for a return that may not count. */
  readonly #doubted = new Set<string>()

  constructor(bus: Bus, rules: JournalRules) {
    this.#bus = bus
    this.#rules = rules
  }

  /**
   * Judges whether a return that a worker stored counts, with a few small reads.
   *
   * @throws BusReadError if it cannot be judged now
   */
  judged(fact: Step | DecisionFact): Promise<ReturnValidity> {
    return countedAtLeader(this.#bus, fact)
  }

  /**
   * Returns the notices of a message; `undefined` if another return of its subagent is being read, so that the caller must try again.
   *
   * @throws BusReadError if the pass cannot be read now
   */
  async noticesOf(fact: Step | DecisionFact, judged?: ReturnValidity): Promise<Notice[] | undefined> {
    const counted = judged ?? (await this.judged(fact))
    if (counted === 'nothing') return []
    return counted === 'counts' ? await this.#read(fact) : await this.#readDoubted(fact)
  }

  async #read(step: Pick<Step, 'key' | 'sequence'>): Promise<Notice[]> {
    const { notices, ...read } = await readNotifications(this.#bus, step, this.#rules)
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
