import { errorText } from '@passover/schemas'
import type { z } from 'zod'
import { decode, encode } from '../codec/codec.js'
import type { Connection } from '../connection/connection.js'
import { OrderedConsumer } from '../consumers/ordered-consumer.js'
import { API_ERROR, type JetStreamApi } from '../messaging/jetstream-api.js'
import type { Publisher } from '../messaging/publisher.js'
import { BusReadError } from '../types/errors.js'
import type { Entry, Table, TableExtent, TableReadOptions } from '../types/stores.js'
import { isBare, isServerAnswer, serverHeader } from '../wire/message-origin.js'
import type { PublishResult, StoredMessage } from '../wire/messages.js'

const OPERATION = 'KV-Operation'
const KEY = /^[A-Za-z0-9_=/-]+(?:\.[A-Za-z0-9_=/-]+)*$/
const FILTER = /^(?:[A-Za-z0-9_=/-]+|\*)(?:\.(?:[A-Za-z0-9_=/-]+|\*))*(?:\.>)?$|^>$/

interface StreamInfo {
  state: { first_seq: number; last_seq: number; messages: number; first_ts: string }
  config: { max_msgs: number }
}

interface TableContext {
  link: Connection
  api: JetStreamApi
  publisher: Publisher
  /** Name of the bucket on the server. */
  bucket: string
  /** Instruction for restoring an unusable entry, for error messages. */
  mend: string
  /** Registers a reader, so that it is closed with the bus. */
  track: (reader: OrderedConsumer) => void
}

const MENDS: Record<string, string> = {
  archive: 'Restore the buckets KV_archive and OBJ_archive from one backup',
  passes: 'passover audit rebuild restores it',
}

/** Returns the instruction for restoring an unusable entry (docs/operations/backup-and-recovery.md#an-entry-of-a-bucket-cannot-be-read). */
export function mendOf(bucket: string): string {
  return MENDS[bucket] ?? 'docs/operations/backup-and-recovery.md describes how to restore it'
}

/** A write that failed; `outcome` contains the reason. */
export class TableError extends Error {
  override readonly name = 'TableError'
  readonly outcome: PublishResult
  constructor(message: string, outcome: PublishResult) {
    super(message)
    this.outcome = outcome
  }
}

/**
 * A typed key-value bucket in the standard NATS layout (stream `KV_<bucket>`, subjects `$KV.<bucket>.<key>`). Built on the bus's own pipelined
 * publish and ordered reader, so that a watch has no gap after a restart. A stored value that its schema rejects is reported and skipped.
 */
export class KvTable<T> implements Table<T> {
  readonly #context: TableContext
  readonly #schema: z.ZodType<T>
  readonly #stream: string
  readonly #base: string

  constructor(context: TableContext, schema: z.ZodType<T>) {
    this.#context = context
    this.#schema = schema
    this.#stream = `KV_${context.bucket}`
    this.#base = `$KV.${context.bucket}.`
  }

  async get(key: string): Promise<Entry<T> | undefined> {
    const stored = await this.#context.api.direct(this.#stream, this.#subject(key))
    const value = stored && this.#value(stored)
    return stored && value !== undefined ? { key, value, revision: stored.sequence, time: stored.time } : undefined
  }

  async put(key: string, value: T): Promise<number> {
    return this.#must(key, await this.#context.publisher.publish({ subject: this.#subject(key), data: encode(value) }))
  }

  async create(key: string, value: T): Promise<number | undefined> {
    const revision = await this.#guarded(key, value, 0)
    if (revision !== undefined) return revision
    const stored = await this.#context.api.direct(this.#stream, this.#subject(key))
    return stored && (isDeleted(stored) || this.#isBounced(stored)) ? this.#guarded(key, value, stored.sequence) : undefined
  }

  update(key: string, value: T, revision: number): Promise<number | undefined> {
    return this.#guarded(key, value, revision)
  }

  send(key: string, data: Uint8Array, revision: number | undefined, settle: (outcome: PublishResult) => void): void {
    const subject = this.#subject(key)
    const message = revision === undefined ? { subject, data } : { subject, data, guard: { subject, sequence: revision } }
    this.#context.publisher.send(message, settle)
  }

  async delete(key: string, revision?: number): Promise<boolean> {
    const subject = this.#subject(key)
    const guard = revision === undefined ? {} : { guard: { subject, sequence: revision } }
    const outcome = await this.#context.publisher.publish({ subject, headers: { [OPERATION]: 'DEL' }, ...guard })
    if (outcome.kind === 'lost') return false
    this.#must(key, outcome)
    return true
  }

  async erase(key: string): Promise<boolean> {
    const subject = this.#subject(key)
    const stored = await this.#context.api.direct(this.#stream, subject)
    if (!stored) return true
    const erased = await this.#context.api.call(`STREAM.MSG.DELETE.${this.#stream}`, { seq: stored.sequence, no_erase: false })
    const gone = erased.ok || (API_ERROR.messageGone.has(erased.err_code) && erased.err_code !== API_ERROR.deleteFailed)
    if (gone) return true
    // A bucket of an earlier version forbids deletes, so purge instead. Later writes of the key are kept.
    await this.#context.api.must(`STREAM.PURGE.${this.#stream}`, { filter: subject, seq: stored.sequence + 1 })
    return false
  }

  entries(filter = '>'): AsyncIterable<Entry<T>> {
    return this.#collect(filter, 'last_per_subject')
  }

  async *newest(count: number): AsyncIterable<Entry<T>> {
    const { state } = await this.#context.api.must<{ state: { last_seq: number } }>(`STREAM.INFO.${this.#stream}`)
    yield* this.#collect('>', Math.max(1, state.last_seq - count + 1))
  }

  async at(revision: number): Promise<Entry<T> | undefined> {
    const stored = await this.#context.api.directAt(this.#stream, revision)
    const value = stored && this.#value(stored)
    return stored && value !== undefined ? { key: stored.subject.slice(this.#base.length), value, revision } : undefined
  }

  async bytesOf(key: string): Promise<{ data: Uint8Array | undefined; revision: number; bounced?: true } | undefined> {
    const stored = await this.#context.api.direct(this.#stream, this.#subject(key))
    if (!stored) return undefined
    const { sequence: revision } = stored
    if (this.#isBounced(stored)) return { data: undefined, revision, bounced: true }
    return { data: isDeleted(stored) ? undefined : stored.data, revision }
  }

  async bounced(): Promise<{ key: string; revision: number }[]> {
    const found: { key: string; revision: number }[] = []
    await using reader = await this.#reader('>', 'last_per_subject', (stored) => {
      if (this.#whyBounced(stored) !== undefined) found.push({ key: stored.subject.slice(this.#base.length), revision: stored.sequence })
    })
    await Promise.race([reader.caughtUp, reader.closed])
    return found
  }

  async read(onEntry: Parameters<Table<T>['read']>[0], { from = 1, filter = '>', signal }: TableReadOptions = {}): Promise<void> {
    const hand = (stored: StoredMessage) => {
      if (signal?.aborted || this.#isBounced(stored)) return undefined
      const data = isDeleted(stored) ? undefined : stored.data
      return onEntry({ key: stored.subject.slice(this.#base.length), data, revision: stored.sequence })
    }
    await using reader = await this.#reader(filter, from, hand)
    const stopped = new Promise<'stopped'>((resolve) => signal?.addEventListener('abort', () => resolve('stopped'), { once: true }))
    const ended = await Promise.race([reader.caughtUp.then(() => 'whole'), reader.closed.then(() => 'closed'), stopped])
    if (ended === 'closed' && !signal?.aborted)
      throw new BusReadError(`${this.#context.bucket}: the reader was closed before the end of the bucket`, 'closed')
  }

  async extent(): Promise<TableExtent> {
    const { state, config } = await this.#context.api.must<StreamInfo>(`STREAM.INFO.${this.#stream}`)
    const first_time = Date.parse(state.first_ts)
    return {
      first: state.first_seq,
      last: state.last_seq,
      entries: state.messages,
      ...(config.max_msgs > 0 ? { most: config.max_msgs } : {}),
      ...(state.messages > 0 && Number.isFinite(first_time) ? { first_time } : {}),
    }
  }

  async watch(onChange: (key: string, value: T | undefined) => void, filter = '>'): Promise<{ ready: Promise<void> } & AsyncDisposable> {
    const reader = await this.#reader(filter, 'last_per_subject', (stored) => {
      const value = this.#value(stored)
      if (value !== undefined || (isDeleted(stored) && !this.#isBounced(stored))) onChange(stored.subject.slice(this.#base.length), value)
    })
    this.#context.track(reader)
    return { ready: reader.caughtUp, [Symbol.asyncDispose]: () => reader[Symbol.asyncDispose]() }
  }

  /** Reads the present entries. A bucket keeps one message per key, so any range contains only newest values. */
  async *#collect(filter: string, start: number | 'last_per_subject'): AsyncIterable<Entry<T>> {
    const found: StoredMessage[] = []
    const reader = await this.#reader(filter, start, (stored) => void found.push(stored))
    try {
      await Promise.race([reader.caughtUp, reader.closed])
    } finally {
      await reader[Symbol.asyncDispose]()
    }
    for (const stored of found) {
      const value = this.#value(stored)
      if (value !== undefined) yield { key: stored.subject.slice(this.#base.length), value, revision: stored.sequence }
    }
  }

  #reader(filter: string, start: number | 'last_per_subject', onMessage: (stored: StoredMessage) => void): Promise<OrderedConsumer> {
    if (!FILTER.test(filter)) throw new TypeError(`not a key filter: ${JSON.stringify(filter.slice(0, 80))}`)
    const options = { stream: this.#stream, filters: [this.#base + filter], start, onMessage }
    return new OrderedConsumer(this.#context, options).open()
  }

  #subject(key: string): string {
    if (!KEY.test(key) || key.length > 512) throw new TypeError(`not a key: ${JSON.stringify(key.slice(0, 80))}`)
    return this.#base + key
  }

  async #guarded(key: string, value: T, revision: number): Promise<number | undefined> {
    const subject = this.#subject(key)
    const outcome = await this.#context.publisher.publish({ subject, data: encode(value), guard: { subject, sequence: revision } })
    return outcome.kind === 'lost' ? undefined : this.#must(key, outcome)
  }

  #must(key: string, outcome: PublishResult): number {
    if (outcome.kind === 'stored') return outcome.sequence
    const why = 'description' in outcome ? outcome.description : outcome.kind
    throw new TableError(`${this.#context.bucket}: ${key} was not written: ${why}`, outcome)
  }

  /** Returns true if the server wrote the value on a client's behalf. Reports it; callers skip it. */
  #isBounced(stored: StoredMessage): boolean {
    const why = this.#whyBounced(stored)
    if (why === undefined) return false
    this.#reportLeftOut(stored, `the server wrote it on a client's behalf: ${why}`)
    return true
  }

  #reportLeftOut({ subject, sequence }: StoredMessage, why: string): void {
    const { bucket, link, mend } = this.#context
    const what = `the entry ${subject.slice(this.#base.length)} (revision ${sequence}) of the bucket ${bucket} is ignored`
    link.report(new BusReadError(`${what}: ${why}. ${mend}`, 'refused_by_server'))
  }

  /**
   * Returns the reason if the server wrote the value. Our values have no headers either, so an answer without headers is recognised by its body,
   * which no schema accepts.
   */
  #whyBounced({ headers, data }: StoredMessage): string | undefined {
    const header = serverHeader(headers)
    if (header !== undefined) return `it has the header ${header}`
    if (!isServerAnswer(data) || !isBare(headers)) return undefined
    const decoded = decode(data)
    return decoded.ok && this.#schema.safeParse(decoded.value).success ? undefined : 'its body is a reply of the server'
  }

  #value(stored: StoredMessage): T | undefined {
    if (isDeleted(stored) || this.#isBounced(stored)) return undefined
    const decoded = decode(stored.data)
    const parsed = decoded.ok ? this.#schema.safeParse(decoded.value) : undefined
    if (parsed?.success) return parsed.data
    this.#reportLeftOut(stored, decoded.ok ? errorText(parsed?.error, 'the entry') : `it cannot be decoded: ${decoded.error.message}`)
    return undefined
  }
}

function isDeleted(stored: StoredMessage): boolean {
  const operation = stored.headers.get(OPERATION)
  return operation === 'DEL' || operation === 'PURGE' || stored.headers.get('Nats-Marker-Reason') !== undefined
}
