import {
  decode,
  type Entry,
  encode,
  type ObjectData,
  type ObjectStore,
  type PartStore,
  type PublishResult,
  type Table,
  TableError,
  type TableExtent,
  type TableReadOptions,
} from '@passover/bus'
import type { z } from 'zod'
import type { SimBus } from './bus.js'
import { type Answer, TIMEOUT_MS } from './network-line.js'
import type { Row, SimTable } from './stores-table.js'
import { matches } from './stream.js'

/** Nothing is moved out of a message: no simulated part is large. */
export const inlineParts: PartStore = {
  upload: async (_, parts) => parts,
  fetch: async (part) => part.data ?? new Uint8Array(0),
  remove: async () => undefined,
  list: async () => undefined,
  removeToken: async () => undefined,
}

/** A bucket seen from a process. */
export class SimTableClient<T> implements Table<T> {
  readonly #bus: SimBus
  readonly #table: SimTable
  readonly #schema: z.ZodType<T>

  constructor(bus: SimBus, bucket: string, schema: z.ZodType<T>) {
    this.#bus = bus
    this.#table = bus.server.table(bucket)
    this.#schema = schema
  }

  async get(key: string): Promise<Entry<T> | undefined> {
    const { row } = this.#must(await this.#bus.line.request(() => ({ row: this.#table.rows.get(key) }), TIMEOUT_MS))
    return row && this.#entry(row)
  }

  async put(key: string, value: T): Promise<number> {
    return this.#written(await this.#write(key, encode(value))) ?? 0
  }

  async create(key: string, value: T): Promise<number | undefined> {
    const revision = this.#written(await this.#write(key, encode(value), 0))
    if (revision !== undefined) return revision
    const { row } = this.#must(await this.#bus.line.request(() => ({ row: this.#table.rows.get(key) }), TIMEOUT_MS))
    return row && row.data === undefined ? this.#written(await this.#write(key, encode(value), row.revision)) : undefined
  }

  async update(key: string, value: T, revision: number): Promise<number | undefined> {
    return this.#written(await this.#write(key, encode(value), revision))
  }

  send(key: string, data: Uint8Array, revision: number | undefined, settle: (outcome: PublishResult) => void): void {
    const ask = () => ({ revision: this.#table.write(key, data, revision) })
    this.#bus.line.requestThen(ask, TIMEOUT_MS, (answer) => {
      if ('none' in answer) settle({ kind: 'unknown', description: answer.none })
      else if (answer.value.revision === undefined) settle({ kind: 'lost' })
      else settle({ kind: 'stored', sequence: answer.value.revision })
    })
  }

  async erase(key: string): Promise<boolean> {
    await this.delete(key)
    return true
  }

  async delete(key: string, revision?: number): Promise<boolean> {
    return this.#written(await this.#write(key, undefined, revision)) !== undefined
  }

  async *entries(filter = '>'): AsyncIterable<Entry<T>> {
    yield* this.#some((rows) => rows.filter(({ key }) => matches(filter, key)))
  }

  async *newest(count: number): AsyncIterable<Entry<T>> {
    yield* this.#some((rows) => rows.slice(-count))
  }

  async at(revision: number): Promise<Entry<T> | undefined> {
    for await (const entry of this.#some((rows) => rows.filter((row) => row.revision === revision))) return entry
    return undefined
  }

  async bytesOf(key: string): Promise<{ data: Uint8Array | undefined; revision: number } | undefined> {
    const { row } = this.#must(await this.#bus.line.request(() => ({ row: this.#table.rows.get(key) }), TIMEOUT_MS))
    return row && { data: row.data, revision: row.revision }
  }

  async bounced(): Promise<{ key: string; revision: number }[]> {
    return []
  }

  async read(onEntry: Parameters<Table<T>['read']>[0], { from = 1, signal }: TableReadOptions = {}): Promise<void> {
    const rows = this.#must(await this.#bus.line.request(() => [...this.#table.rows.values()], TIMEOUT_MS))
    for (const { key, data, revision } of rows) if (revision >= from && !signal?.aborted) await onEntry({ key, data, revision })
  }

  async extent(): Promise<TableExtent> {
    const rows = this.#must(await this.#bus.line.request(() => [...this.#table.rows.values()], TIMEOUT_MS))
    return { first: rows[0]?.revision ?? 0, last: this.#table.last, entries: rows.length }
  }

  async watch(onChange: (key: string, value: T | undefined) => void, filter = '>'): Promise<{ ready: Promise<void> } & AsyncDisposable> {
    const { line } = this.#bus
    let stopped = false
    let ready: () => void = () => undefined
    const isReady = new Promise<void>((resolve) => {
      ready = resolve
    })
    const hand = (row: Row) => {
      const entry = this.#entry(row)
      if (!stopped && (entry || row.data === undefined)) onChange(row.key, entry?.value)
    }
    const watch = { line, filter, hand }
    const begin = () => line.up(() => line.connected && !stopped && this.#table.watch(watch, ready), 'arrives')
    line.onReconnect.add(begin)
    begin()
    return {
      ready: isReady,
      [Symbol.asyncDispose]: async () => {
        stopped = true
        line.onReconnect.delete(begin)
        this.#table.unwatch(watch)
      },
    }
  }

  async *#some(choose: (rows: Row[]) => Row[]): AsyncIterable<Entry<T>> {
    const rows = this.#must(await this.#bus.line.request(() => choose([...this.#table.rows.values()]), TIMEOUT_MS))
    for (const row of rows) {
      const entry = this.#entry(row)
      if (entry) yield entry
    }
  }

  #write(key: string, data: Uint8Array | undefined, expected?: number): Promise<Answer<{ revision: number | undefined }>> {
    return this.#bus.line.request(() => ({ revision: this.#table.write(key, data, expected) }), TIMEOUT_MS)
  }

  #written(answer: Answer<{ revision: number | undefined }>): number | undefined {
    if (!('none' in answer)) return answer.value.revision
    throw new TableError(`not written: ${answer.none}`, { kind: 'unknown', description: answer.none })
  }

  #must<V>(answer: Answer<V>): V {
    return this.#bus.must(answer, 'table')
  }

  #entry({ key, data, revision }: Row): Entry<T> | undefined {
    const decoded = data && decode(data)
    const parsed = decoded?.ok ? this.#schema.safeParse(decoded.value) : undefined
    return parsed?.success ? { key, value: parsed.data, revision } : undefined
  }
}

/** An object bucket seen from a process. */
export class SimObjects implements ObjectStore {
  readonly #bus: SimBus
  readonly #objects: Map<string, { data: Uint8Array; meta: Record<string, string> }>

  constructor(bus: SimBus, bucket: string) {
    this.#bus = bus
    this.#objects = bus.server.bucket(bucket)
  }

  async put(name: string, data: ObjectData, meta: Record<string, string> = {}): Promise<void> {
    if (data instanceof ReadableStream) throw new TypeError('the simulation has no streams')
    const pieces: Uint8Array[] = []
    if (data instanceof Uint8Array) pieces.push(data)
    else for await (const piece of data) pieces.push(piece)
    await this.#ask(() => Boolean(this.#objects.set(name, { data: Buffer.concat(pieces), meta })))
  }
  async get(name: string): Promise<Uint8Array | undefined> {
    return (await this.#ask(() => ({ found: this.#objects.get(name) }))).found?.data
  }
  async info(name: string): Promise<{ size: number; meta: Record<string, string> } | undefined> {
    const { found } = await this.#ask(() => ({ found: this.#objects.get(name) }))
    return found && { size: found.data.length, meta: found.meta }
  }
  list(): Promise<string[]> {
    return this.#ask(() => [...this.#objects.keys()])
  }
  async delete(name: string): Promise<void> {
    await this.#ask(() => ({ gone: this.#objects.delete(name) }))
  }
  /** Nothing is written in pieces. */
  async sweep(): Promise<string[]> {
    return []
  }

  async #ask<T>(ask: () => T): Promise<T> {
    return this.#bus.must(await this.#bus.line.request(ask, TIMEOUT_MS), 'objects')
  }
}
