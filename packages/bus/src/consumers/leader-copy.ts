import pLimit from 'p-limit'
import { BusReadError } from '../types/errors.js'

/** Only a reader that catches up where much was deleted has many questions. */
const CONCURRENCY = 16

interface Found {
  sequence: number
}

/** What it asks the stream's leader: the first message at or after a sequence that a filter matches, and the newest of all. */
export interface LeaderReads {
  first(filter: string, from: number): Promise<Found | undefined>
  newest(filter: string): Promise<Found | undefined>
}

const ALL = '>'

/**
 * Compares what one replica delivers with the stream's leader. A replica that was cut off for a while can lack messages and not know it, and
 * serves its readers without them (infra/decisions/0158-compare-jumps-of-readers-with-the-leader.md).
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
   * Returns the first message that the leader has between two sequences, of those that the reader wants; undefined: it has none.
   *
   * @param isWanted - asked before each question, so that those of a consumer that is gone are not asked
   * @throws BusReadError where the leader does not answer now
   */
  async between(after: number, before: number, isWanted: () => boolean): Promise<number | undefined> {
    const found = await Promise.all(
      this.#filters.map((filter) => this.#limit(async () => (isWanted() ? await this.#ask(filter, after) : undefined))),
    )
    const sequences = found.filter((sequence) => sequence !== undefined && sequence < before)
    return sequences.length > 0 ? Math.min(...(sequences as number[])) : undefined
  }

  async #ask(filter: string, after: number): Promise<number | undefined> {
    try {
      // A search by a filter that nothing matches to the stream's end keeps the leader busy for 20 ms (journal-reader.ts).
      if (filter !== ALL && ((await this.#reads.newest(filter))?.sequence ?? 0) <= after) return undefined
      return (await this.#reads.first(filter, after + 1))?.sequence
    } catch (error) {
      // A reader with the permissions of an earlier version believes what it is delivered.
      if (error instanceof BusReadError && error.reason === 'permission') return undefined
      throw error
    }
  }
}
