import { keyText, type PassRow, type PassStatus } from '@passover/schemas'

/** Number of passes that `list` can show without reading the bucket. */
export const MAX_ROWS = 20_000

/** Number of rows kept above the limit before old ones are removed. */
const SLACK = 1_000

export interface RowFilter {
  originator?: string | undefined
  subagent?: string | undefined
  session_id?: string | undefined
  status?: PassStatus | undefined
  /** `keyText` of the parent pass. */
  parent?: string | undefined
  /** Name of an agent; only passes with it as originator or subagent match. */
  party?: string | undefined
}

/** Rows of the most recently updated passes. The row that was updated longest ago is removed first. */
export class RowCache {
  readonly #max: number
  readonly #changed: (text: string) => void
  readonly #rows = new Map<string, PassRow>()
  /** True while nothing was removed for lack of room, so that a pass without a row is not in the bucket either. */
  complete = true

  /** `changed` is called with the `keyText` of each row after it was added, changed or removed. */
  constructor(max = MAX_ROWS, changed: (text: string) => void = () => undefined) {
    this.#max = max
    this.#changed = changed
  }

  /** Stores a row, unless the known one is newer. */
  put(row: PassRow): void {
    const text = keyText(row)
    const known = this.#rows.get(text)
    if (known && known.last_sequence > row.last_sequence) return
    if (known) this.#rows.delete(text)
    this.#rows.set(text, row)
    this.#changed(text)
    if (this.#rows.size > this.#max + SLACK) this.#forget()
  }

  /** Removes old rows in bulk: finding the oldest key of a Map skips over all entries that were deleted before it. */
  #forget(): void {
    let excess = this.#rows.size - this.#max
    for (const text of this.#rows.keys()) {
      if (excess-- <= 0) break
      this.remove(text)
    }
    this.complete = false
  }

  /** Removes the rows whose last message is among the removed ones. */
  removeWithin(removed: { has(sequence: number): boolean }): void {
    for (const [text, { last_sequence }] of this.#rows) if (removed.has(last_sequence)) this.remove(text)
  }

  remove(text: string): void {
    if (this.#rows.delete(text)) this.#changed(text)
  }

  get(text: string): PassRow | undefined {
    return this.#rows.get(text)
  }

  values(): IterableIterator<PassRow> {
    return this.#rows.values()
  }
}

export function matches(row: PassRow, filter: RowFilter): boolean {
  const { originator, subagent, session_id, status, parent, party } = filter
  return (
    (originator === undefined || row.originator === originator) &&
    (subagent === undefined || row.subagent === subagent) &&
    (session_id === undefined || row.session_id === session_id) &&
    (status === undefined || row.status === status) &&
    (parent === undefined || row.parent === parent) &&
    (party === undefined || row.originator === party || row.subagent === party)
  )
}

/** Compares rows by request time, newest first; at equal times, the one with the later last message comes first. */
export function newestFirst(a: PassRow, b: PassRow): number {
  return b.created_at - a.created_at || b.last_sequence - a.last_sequence || (keyText(a) < keyText(b) ? -1 : 1)
}
