import { keyText, type PassRow, type PassStatus } from '@passover/schemas'

/** How many passes `list` knows without reading the bucket. */
export const MAX_ROWS = 20_000

/** Rows kept beyond that. */
const SLACK = 1_000

export interface RowFilter {
  originator?: string | undefined
  subagent?: string | undefined
  session_id?: string | undefined
  status?: PassStatus | undefined
  /** keyText of the pass that they are children of. */
  parent?: string | undefined
  /** Passes of this agent only, whichever side it is on. */
  party?: string | undefined
}

/** One line for each pass of late, the oldest forgotten first. */
export class RowCache {
  private readonly rows = new Map<string, PassRow>()
  /** Nothing was forgotten: what is not here is not in the bucket either. */
  complete = true

  /** `changed`: called with the keyText of each row after it came, changed or went. */
  constructor(
    private readonly max = MAX_ROWS,
    private readonly changed: (text: string) => void = () => undefined,
  ) {}

  /** Keeps the row that knows more. */
  put(row: PassRow): void {
    const text = keyText(row)
    const known = this.rows.get(text)
    if (known && known.last_sequence > row.last_sequence) return
    if (known) this.rows.delete(text)
    this.rows.set(text, row)
    this.changed(text)
    if (this.rows.size > this.max + SLACK) this.forget()
  }

  /** Many at a time: to find the oldest, a map looks at all that were deleted before it. */
  private forget(): void {
    let excess = this.rows.size - this.max
    for (const text of this.rows.keys()) {
      if (excess-- <= 0) break
      this.remove(text)
    }
    this.complete = false
  }

  /** Of passes of which nothing younger is stored than what was removed. */
  removeWithin(removed: { has(sequence: number): boolean }): void {
    for (const [text, { last_sequence }] of this.rows) if (removed.has(last_sequence)) this.remove(text)
  }

  remove(text: string): void {
    if (this.rows.delete(text)) this.changed(text)
  }

  get(text: string): PassRow | undefined {
    return this.rows.get(text)
  }

  values(): IterableIterator<PassRow> {
    return this.rows.values()
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

/** Newest first; of the same moment the later stored first. */
export function newestFirst(a: PassRow, b: PassRow): number {
  return b.created_at - a.created_at || b.last_sequence - a.last_sequence || (keyText(a) < keyText(b) ? -1 : 1)
}
