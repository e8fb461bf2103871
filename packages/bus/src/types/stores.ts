import type { Part } from '@passover/schemas'
import type { PublishResult } from '../wire/messages.js'

/** Large parts by content hash in the object buckets `parts_<agent>`. */
export interface PartStore {
  /** Moves what is too large to inline into the owner's bucket, or what `moved` says; returns parts that fit a message. */
  stow(owner: string, parts: Part[], moved?: ReadonlySet<Part>): Promise<Part[]>
  /** The bytes of a part, checked against its hash. Throws PartError when they are gone or differ. */
  fetch(part: Part): Promise<Uint8Array>
  /**
   * The tokens of all parts in an agent's bucket, empty where there is none; undefined: these credentials may not list them, or the bucket holds more
   * than `most` messages.
   */
  list(owner: string, most: number): Promise<ReadonlySet<string> | undefined>
  /** Deletes a stored part, by its hash or by the token under which it lies. Not for agents. */
  remove(owner: string, hash: string): Promise<void>
  removeToken(owner: string, token: string): Promise<void>
}

export interface Entry<T> {
  key: string
  value: T
  revision: number
  /** When it was written, server ms; `get` tells it. */
  time?: number
}

export interface TableExtent {
  first: number
  last: number
  entries: number
  most?: number
  first_time?: number
}

/** An entry, or the mark of a deleted key, as it stands in the bucket. */
export interface TableBytes {
  key: string
  data: Uint8Array | undefined
  revision: number
}

export interface TableReadOptions {
  /** The lowest revision that is handed on. */
  from?: number
  /** Only entries whose key matches. */
  filter?: string
  signal?: AbortSignal
}

/** What an object is made of: all of it, or pieces of any size. */
export type ObjectData = Uint8Array | readonly Uint8Array[] | ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>

/** A typed key-value bucket. */
export interface Table<T> {
  get(key: string): Promise<Entry<T> | undefined>
  /** Pipelined: any number may be under way. Throws TableError when it was not written. */
  put(key: string, value: T): Promise<number>
  /** undefined: the key is there already. */
  create(key: string, value: T): Promise<number | undefined>
  /** Compare-and-set; undefined: someone was faster. */
  update(key: string, value: T, revision: number): Promise<number | undefined>
  /** `update`, with revision 0 `create`, without one `put`, for who writes many: encoded already, without a promise, and told how it went as it went. */
  send(key: string, data: Uint8Array, revision: number | undefined, settle: (outcome: PublishResult) => void): void
  /** With a revision compare-and-set; false: someone was faster. */
  delete(key: string, revision?: number): Promise<boolean>
  /** Takes an entry out without a trace of its key, its bytes on disk overwritten; false: the bucket forbids that, and they lie there until the server compacts. */
  erase(key: string): Promise<boolean>
  /** Entries whose key matches the filter (default all), newest value each. */
  entries(filter?: string): AsyncIterable<Entry<T>>
  /** Entries among the last `count` writes, oldest first. */
  newest(count: number): AsyncIterable<Entry<T>>
  /** The entry that was written with this revision; undefined: it was written over, or is gone. Asks any replica. */
  at(revision: number): Promise<Entry<T> | undefined>
  /**
   * What stands under a key as its bytes, whatever they say; without any: the mark that it was deleted. Asks any replica, which may be behind:
   * that it finds nothing is no proof. `bounced`: the server wrote it on a client's behalf, so it is not believed.
   */
  bytesOf(key: string): Promise<{ data: Uint8Array | undefined; revision: number; bounced?: true } | undefined>
  /** Keys whose value the server wrote on a client's behalf. Every other reader skips such a value. */
  bounced(): Promise<{ key: string; revision: number }[]>
  /**
   * Hands on every entry as its bytes, in the order of writing and without keeping them, for a reader of a large bucket. Without `data` the entry
   * is the mark of a deleted key. Ends early when `signal` says so. Throws BusReadError when it was closed before the end.
   */
  read(onEntry: (entry: TableBytes) => void | Promise<void>, options?: TableReadOptions): Promise<void>
  /** Lowest and highest revision there, how many entries there are and may be (undefined: any number), and when the oldest was written (ms). */
  extent(): Promise<TableExtent>
  /** Calls back for every present entry, then for each change (value undefined: deleted). Survives reconnects. `ready` settles after the present ones. */
  watch(onChange: (key: string, value: T | undefined) => void, filter?: string): Promise<{ ready: Promise<void> } & AsyncDisposable>
}

export interface ObjectStore {
  /** Pieces are written one behind the other. */
  put(name: string, data: ObjectData, meta?: Record<string, string>): Promise<void>
  get(name: string): Promise<Uint8Array | undefined>
  info(name: string): Promise<{ size: number; meta: Record<string, string> } | undefined>
  list(): Promise<string[]>
  /** `overwrite`: its bytes on disk, too. */
  delete(name: string, how?: 'overwrite'): Promise<void>
  /**
   * Overwrites what no object is made of: what deletions left that broke off, and writings that added nothing since `before` (server ms). Gives
   * those that did: they may become objects yet. Throws where what replicas tell is not enough to say so.
   */
  sweep(before: number): Promise<string[]>
}
