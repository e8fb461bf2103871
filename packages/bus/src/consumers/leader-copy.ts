import pLimit from 'p-limit'
import { BusReadError } from '../types/errors.js'

/** Maximum number of concurrent queries. Many arise only when a reader catches up over a range with many deleted messages. */
const CONCURRENCY = 16

interface Found {
  sequence: number
}

/** Queries of the stream's leader: the first match of a filter at or after a sequence, and the newest match. */
export interface LeaderReads {
  first(filter: string, from: number): Promise<Found | undefined>
  newest(filter: string): Promise<Found | undefined>
}

const ALL = '>'

/**
 * Compares the deliveries of one replica with the stream's leader. A replica that was disconnected for a while can lack messages without noticing,
 * and serves its readers without them (infra/decisions/0086-compare-readers-with-the-leader-and-empty-damaged-replicas.md).
 */
export class LeaderCopy {
  readonly #reads: LeaderReads
  readonly #filters: readonly string[]
  readonly #limit = pLimit(CONCURRENCY)

  constructor(reads: LeaderReads, filters: readonly string[] | undefined) {
    this.#reads = reads
    this.#filters = filters && filters.length > 0 ? filters : [ALL]
  }

  /**
   * Returns the first message that the leader has between two sequences and that matches the reader's filters, or `undefined` if there is none.
   *
   * @param isWanted - called before each query; false skips queries for a consumer that no longer exists
   * @throws BusReadError if the leader does not answer now
   */
  async between(after: number, before: number, isWanted: () => boolean): Promise<number | undefined> {
    const found = await Promise.all(
      this.#filters.map((filter) => this.#limit(async () => (isWanted() ? await this.#ask(filter, after) : undefined))),
    )
    const first = Math.min(...found.map((sequence) => sequence ?? before))
    return first < before ? first : undefined
  }

  async #ask(filter: string, after: number): Promise<number | undefined> {
    try {
      // A search from a sequence to the stream's end without a match keeps the leader busy for 20 ms (journal-reader.ts).
      if (filter !== ALL && ((await this.#reads.newest(filter))?.sequence ?? 0) <= after) return undefined
      return (await this.#reads.first(filter, after + 1))?.sequence
    } catch (error) {
      // A reader with the permissions of an earlier version may not query the leader, so it trusts its deliveries.
      if (error instanceof BusReadError && error.reason === 'permission') return undefined
      throw error
    }
  }
}
