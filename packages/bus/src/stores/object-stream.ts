import { nuid } from '@nats-io/transport-node'
import { withTimeout } from '../clock/with-timeout.js'
import type { Connection } from '../connection/connection.js'
import { OrderedConsumer } from '../consumers/ordered-consumer.js'
import { API_ERROR, type JetStreamApi, jsonOf } from '../messaging/jetstream-api.js'
import type { Publisher } from '../messaging/publisher.js'
import { BusReadError } from '../types/errors.js'
import { serverHeader } from '../wire/message-origin.js'
import type { PublishMessage, PublishResult, StoredMessage } from '../wire/messages.js'

export interface ObjectContext {
  link: Connection
  api: JetStreamApi
  publisher: Publisher
  bucket: string
  /** True if deletions also overwrite the bytes on disk, which needs another permission. */
  overwrites: boolean
}

/** Metadata of an object under `$O.<bucket>.M.<name>`, in the standard NATS format. */
export interface ObjectMeta {
  name: string
  bucket: string
  nuid: string
  size: number
  chunks: number
  digest: string
  mtime: string
  deleted?: boolean
  metadata?: Record<string, string>
  options?: { max_chunk_size: number }
}

/** A message that marks a position for readers: every message stored before it, on any replica, is read before it. */
export interface Mark {
  id: string
  sequence: number
}

/** An object could not be written, or its data does not match its digest. */
export class ObjectError extends Error {
  override readonly name = 'ObjectError'
  /** The reason, if a write was refused. */
  readonly outcome: PublishResult | undefined
  constructor(message: string, outcome?: PublishResult) {
    super(message)
    this.outcome = outcome
  }
}

/** Milliseconds to wait for a lagging replica. */
const BEHIND_MS = 10_000
const MARK = 'mark-'

/** Returns true for the id of a mark, as opposed to that of an upload. */
export function isMark(id: string): boolean {
  return id.startsWith(MARK)
}

/** Stream of an object bucket: chunks by upload id, and metadata by object name. */
export class ObjectStream {
  readonly name: string
  readonly #context: ObjectContext

  constructor(context: ObjectContext) {
    this.#context = context
    this.name = `OBJ_${context.bucket}`
  }

  chunk(id: string): string {
    return `$O.${this.#context.bucket}.C.${id}`
  }

  metaSubject(name: string): string {
    if (name === '') throw new TypeError('an object needs a name')
    const text = Buffer.from(name).toString('base64').replaceAll('+', '-').replaceAll('/', '_')
    return `$O.${this.#context.bucket}.M.${text}`
  }

  async meta(name: string): Promise<ObjectMeta | undefined> {
    const stored = await this.#context.api.direct(this.name, this.metaSubject(name))
    return stored && serverHeader(stored.headers) === undefined ? (jsonOf(stored.data) as ObjectMeta | undefined) : undefined
  }

  /** Publishes a message. Throws if it was not stored or the outcome is unknown. */
  async publish(message: PublishMessage): Promise<number> {
    return storedAt(await this.#context.publisher.publish(message))
  }

  /**
   * Publishes an empty chunk after the last one, after which the upload's writer can store neither chunks nor metadata. Metadata stored before is
   * found by a read up to a mark set now. Returns `undefined` if more was stored meanwhile.
   */
  async fence(id: string, last: number): Promise<number | undefined> {
    const subject = this.chunk(id)
    const outcome = await this.#context.publisher.publish({ subject, guard: { subject, sequence: last } })
    return outcome.kind === 'lost' ? undefined : storedAt(outcome)
  }

  /** Publishes a mark. The caller has to remove it. */
  async mark(): Promise<Mark> {
    const id = `${MARK}${nuid.next()}`
    return { id, sequence: await this.publish({ subject: this.chunk(id) }) }
  }

  /** Reads the metadata of all objects, including deletion markers, up to a mark, or up to the end of some replica. */
  async metas(onMeta: (meta: ObjectMeta, sequence: number) => void, mark?: Mark): Promise<void> {
    await this.#read('M', mark, ({ sequence, headers, data }) => {
      if (serverHeader(headers) !== undefined) {
        // It may replace the metadata of an object in use, so no upload can be considered unnamed.
        if (mark) throw new ObjectError(`the name at sequence ${sequence} of ${this.name} was published by the server, not by its writer`)
        return
      }
      const meta = jsonOf(data) as ObjectMeta | undefined
      if (meta && typeof meta.name === 'string') onMeta(meta, sequence)
    })
  }

  /** Reads the last chunk of each upload, up to a mark. */
  async lastChunks(onChunk: (id: string, stored: StoredMessage) => void, mark: Mark): Promise<void> {
    const base = this.chunk('').length
    await this.#read('C', mark, (stored) => onChunk(stored.subject.slice(base), stored))
  }

  /** Reads the last message of each subject; for chunks only the headers. Throws BusReadError if the mark is not reached in time. */
  async #read(what: 'C' | 'M', mark: Mark | undefined, onMessage: (stored: StoredMessage) => void): Promise<void> {
    let [isThere, arrived]: [boolean, () => void] = [false, () => undefined]
    const there = new Promise<void>((resolve) => {
      arrived = resolve
    })
    await using reader = await new OrderedConsumer(this.#context, {
      stream: this.name,
      filters: [`$O.${this.#context.bucket}.${what}.>`, ...(mark && what === 'M' ? [this.chunk(mark.id)] : [])],
      start: 'last_per_subject',
      headers_only: what === 'C',
      onMessage: (stored) => {
        onMessage(stored)
        if (!mark || stored.sequence < mark.sequence) return
        isThere = true
        arrived()
      },
    }).open()
    if (!mark) return await Promise.race([reader.caughtUp, reader.closed])
    await withTimeout(BEHIND_MS, Promise.race([there, reader.closed]))
    if (!isThere) throw new BusReadError(`${this.name}: not read up to ${mark.sequence}`, 'timeout')
  }

  /** Removes all chunks of an upload, with overwriting if the bucket is configured so. */
  async removeChunks(id: string): Promise<void> {
    if (this.#context.overwrites) await this.overwrite(id)
    await this.purge(this.chunk(id))
  }

  /** Deletes chunk by chunk: a purge leaves their bytes on disk until the server compacts. */
  async overwrite(id: string): Promise<void> {
    for (let seq = 1; ; ) {
      const chunk = await this.#context.api.directNext(this.name, { seq, next_by_subj: this.chunk(id) })
      if (!chunk) return
      await this.deleteMessage(chunk.sequence)
      seq = chunk.sequence + 1
    }
  }

  /** Deletes a message and overwrites its bytes. Succeeds if another process has deleted it. */
  async deleteMessage(seq: number): Promise<void> {
    const { api } = this.#context
    const reply = await api.call(`STREAM.MSG.DELETE.${this.name}`, { seq, no_erase: false })
    if (reply.ok) return
    const stands = reply.err_code === API_ERROR.deleteFailed && (await api.directAt(this.name, seq)) !== undefined
    if (stands || !API_ERROR.messageGone.has(reply.err_code)) throw new ObjectError(`${seq} was not deleted: ${reply.description}`)
  }

  async purge(subject: string): Promise<void> {
    await this.#context.api.must(`STREAM.PURGE.${this.name}`, { filter: subject })
  }
}

function storedAt(outcome: PublishResult): number {
  if (outcome.kind === 'stored') return outcome.sequence
  const why = 'description' in outcome ? outcome.description : outcome.kind
  if (outcome.kind === 'unknown') throw new BusReadError(`object: ${why}`, 'timeout')
  throw new ObjectError(`object was not written: ${why}`, outcome)
}
