import type { Part } from '@passover/schemas'
import type { PublishResult } from '../wire/messages.js'

/** Stores large parts by content hash in the object buckets `parts_<agent>`. */
export interface PartStore {
  /** Stores parts that are too large to inline, or those in `moved`, in the owner's bucket. Returns parts that fit into a message. */
  upload(owner: string, parts: Part[], moved?: ReadonlySet<Part>): Promise<Part[]>
  /** Returns the bytes of a part, verified against its hash. Throws PartError if they are missing or differ. */
  fetch(part: Part): Promise<Uint8Array>
  /**
   * Lists the tokens of all parts in an agent's bucket, empty if it has no bucket. Returns `undefined` if these credentials may not list them, or if
   * the bucket holds more than `most` messages.
   */
  list(owner: string, most: number): Promise<ReadonlySet<string> | undefined>
  /** Deletes a stored part by its hash, or by the token under which it is stored. Not for agents. */
  remove(owner: string, hash: string): Promise<void>
  removeToken(owner: string, token: string): Promise<void>
}

export interface Entry<T> {
  key: string
  value: T
  revision: number
  /** Server time of the write, ms; set by `get`. */
  time?: number
}

export interface TableExtent {
  first: number
  last: number
  entries: number
  most?: number
  first_time?: number
}

/** A raw entry, or the marker of a deleted key. */
export interface TableBytes {
  key: string
  data: Uint8Array | undefined
  revision: number
}

export interface TableReadOptions {
  /** Lowest revision to read. */
  from?: number
  /** Reads only entries whose key matches. */
  filter?: string
  signal?: AbortSignal
}

/** Data of an object: all of it, or pieces of any size. */
export type ObjectData = Uint8Array | readonly Uint8Array[] | ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>

/** A typed key-value bucket. */
export interface Table<T> {
  get(key: string): Promise<Entry<T> | undefined>
  /** Writes a value. Pipelined: any number of calls may be pending. Throws TableError if it was not written. */
  put(key: string, value: T): Promise<number>
  /** Writes a new key. Returns `undefined` if the key exists. */
  create(key: string, value: T): Promise<number | undefined>
  /** Compare-and-set. Returns `undefined` if the revision has changed. */
  update(key: string, value: T, revision: number): Promise<number | undefined>
  /**
   * Low-level write for bulk writers, with encoded data and a callback in place of a promise. With a revision it acts as `update`, with 0 as
   * `create`, without one as `put`.
   */
  send(key: string, data: Uint8Array, revision: number | undefined, settle: (outcome: PublishResult) => void): void
  /** Deletes a key. With a revision it is a compare-and-set: returns false if the revision has changed. */
  delete(key: string, revision?: number): Promise<boolean>
  /**
   * Removes an entry without leaving its key, and overwrites its bytes on disk. Returns false if the bucket forbids that; the bytes then remain until
   * the server compacts.
   */
  erase(key: string): Promise<boolean>
  /** Iterates over the newest value of each key that matches the filter (default all). */
  entries(filter?: string): AsyncIterable<Entry<T>>
  /** Iterates over the entries among the last `count` writes, oldest first. */
  newest(count: number): AsyncIterable<Entry<T>>
  /** Reads the entry written with this revision, or `undefined` if it was overwritten or deleted. Any replica may answer. */
  at(revision: number): Promise<Entry<T> | undefined>
  /**
   * Reads the raw bytes of a key; without `data` it is the marker of a deletion. Any replica may answer and may lag: a missing entry is no proof.
   * `bounced`: the server wrote it on a client's behalf, so it is not trusted.
   */
  bytesOf(key: string): Promise<{ data: Uint8Array | undefined; revision: number; bounced?: true } | undefined>
  /** Lists the keys whose value the server wrote on a client's behalf. All other read methods skip such values. */
  bounced(): Promise<{ key: string; revision: number }[]>
  /**
   * Reads the raw bytes of every entry in write order without buffering, for large buckets. Without `data` the entry is the marker of a deleted key.
   * Ends early when `signal` aborts. Throws BusReadError if it was closed before the end.
   */
  read(onEntry: (entry: TableBytes) => void | Promise<void>, options?: TableReadOptions): Promise<void>
  /**
   * Returns the lowest and highest revision, the number of entries and its maximum (`undefined` if unlimited), and the time of the oldest write (ms).
   */
  extent(): Promise<TableExtent>
  /**
   * Calls back for every present entry, then for each change (value `undefined`: deleted). Survives reconnects. `ready` settles after the present
   * ones.
   */
  watch(onChange: (key: string, value: T | undefined) => void, filter?: string): Promise<{ ready: Promise<void> } & AsyncDisposable>
}

export interface ObjectStore {
  /** Stores an object. Writes its pieces sequentially. */
  put(name: string, data: ObjectData, meta?: Record<string, string>): Promise<void>
  get(name: string): Promise<Uint8Array | undefined>
  info(name: string): Promise<{ size: number; meta: Record<string, string> } | undefined>
  list(): Promise<string[]>
  /** Deletes an object. `overwrite` overwrites its bytes on disk. */
  delete(name: string, how?: 'overwrite'): Promise<void>
  /**
   * Overwrites data that belongs to no object: remains of interrupted deletions, and uploads without a new piece since `before` (server ms). Returns
   * uploads that are still active: they may yet become objects. Throws if the replicas' answers are not sufficient to decide.
   */
  sweep(before: number): Promise<string[]>
}
