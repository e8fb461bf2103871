import type { Line } from './network-line.js'
import { matches } from './stream.js'

export interface Row {
  key: string
  data: Uint8Array | undefined
  revision: number
}

export interface TableWatch {
  line: Line
  filter: string
  hand: (row: Row) => void
}

/** A key-value bucket as the server has it: the last write of each key, and who watches. */
export class SimTable {
  readonly rows = new Map<string, Row>()
  #revision = 0
  readonly #watches = new Set<TableWatch>()

  get last(): number {
    return this.#revision
  }

  /** Undefined: the guard does not hold. A deleted key's revision is that of its deletion, as it is for the server. */
  write(key: string, data: Uint8Array | undefined, expected?: number): number | undefined {
    if (expected !== undefined && (this.rows.get(key)?.revision ?? 0) !== expected) return undefined
    const row = { key, data, revision: ++this.#revision }
    this.rows.delete(key)
    this.rows.set(key, row)
    for (const watch of this.#watches) if (matches(watch.filter, key)) watch.line.down(() => watch.hand(row), 'reader')
    return row.revision
  }

  matching(filter: string): Row[] {
    return [...this.rows.values()].filter((row) => matches(filter, row.key))
  }

  /** Hands out what is there, then each change. */
  watch(watch: TableWatch, ready: () => void): void {
    this.#watches.add(watch)
    for (const row of this.matching(watch.filter)) watch.line.down(() => watch.hand(row), 'reader')
    watch.line.down(ready, 'reader')
  }

  unwatch(watch: TableWatch): void {
    this.#watches.delete(watch)
  }

  drop(line: Line): void {
    for (const watch of this.#watches) if (watch.line === line) this.#watches.delete(watch)
  }
}
