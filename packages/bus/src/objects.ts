import { createHash, type Hash } from 'node:crypto'
import { nuid } from '@nats-io/transport-node'
import { API_ERROR, type JetStreamApi, jsonOf } from './api.js'
import type { Outcome, Outgoing, Stored } from './bus-messages.js'
import type { ObjectData, ObjectStore } from './bus-stores.js'
import { chunked } from './chunked.js'
import { BusReadError } from './errors.js'
import type { Link } from './link.js'
import type { Publisher } from './publish.js'
import { StreamReader } from './reader.js'

interface ObjectContext {
  link: Link
  api: JetStreamApi
  publisher: Publisher
  bucket: string
  /** How much is written at a time. */
  pace?: Pace | undefined
}

/** Most bytes of a chunk, and how many chunks are on their way at once. */
interface Pace {
  chunk_bytes: number
  in_flight: number
}

/** What stands in `$O.<bucket>.M.<name>`: the form that every NATS client knows. */
interface ObjectMeta {
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

const FAST: Pace = { chunk_bytes: 512 * 1024, in_flight: 8 }
/** For who writes objects on a connection on which somebody waits for what it writes besides: that is behind a quarter of a MiB at most. */
const BESIDE: Pace = { chunk_bytes: 128 * 1024, in_flight: 2 }
/** Objects of a dispatcher, whose connection carries admissions. */
const BESIDE_OTHERS = new Set(['snapshots'])
const ROLLUP = { 'Nats-Rollup': 'sub' }

export function paceOf(bucket: string): Pace {
  return BESIDE_OTHERS.has(bucket) ? BESIDE : FAST
}

/** An object could not be written, or what is stored is not what its digest says. */
export class ObjectError extends Error {
  override readonly name = 'ObjectError'
}

/**
 * A bucket of objects in the form that every NATS client knows. The client's own store leaves a consumer behind for every read and
 * waits for each chunk; this one reads by direct gets and writes pipelined.
 */
export class BucketObjects implements ObjectStore {
  readonly #context: ObjectContext
  readonly #stream: string
  readonly #pace: Pace

  constructor(context: ObjectContext) {
    this.#context = context
    this.#stream = `OBJ_${context.bucket}`
    this.#pace = context.pace ?? FAST
  }

  async put(name: string, data: ObjectData, meta?: Record<string, string>): Promise<void> {
    const old = await this.#meta(name)
    const id = nuid.next()
    const size = Math.min(this.#pace.chunk_bytes, this.#context.link.maxPayload - 4096)
    const hash = createHash('sha256')
    try {
      const written = await this.#putChunks(id, chunked(data, size), hash)
      await this.#putMeta({
        name,
        bucket: this.#context.bucket,
        nuid: id,
        ...written,
        digest: digestText(hash),
        mtime: new Date().toISOString(),
        options: { max_chunk_size: size },
        ...(meta ? { metadata: meta } : {}),
      })
    } catch (error) {
      await this.#purge(id).catch(() => undefined)
      throw error
    }
    if (old) await this.#purge(old.nuid)
  }

  async get(name: string): Promise<Uint8Array | undefined> {
    const meta = await this.#meta(name)
    if (!meta || meta.deleted) return undefined
    const { api } = this.#context
    const chunks: Uint8Array[] = []
    const hash = createHash('sha256')
    for (let seq = 1, n = 0; n < meta.chunks; n += 1) {
      const chunk = await api.directNext(this.#stream, { seq, next_by_subj: this.#chunk(meta.nuid) })
      if (!chunk) throw new ObjectError(`${this.#context.bucket}/${name}: chunk ${n + 1} of ${meta.chunks} is not there`)
      chunks.push(chunk.data)
      hash.update(chunk.data)
      seq = chunk.sequence + 1
    }
    if (digestText(hash) !== meta.digest) throw new ObjectError(`${this.#context.bucket}/${name} is not what its digest says`)
    return Buffer.concat(chunks)
  }

  async info(name: string): Promise<{ size: number; meta: Record<string, string> } | undefined> {
    const meta = await this.#meta(name)
    return meta && !meta.deleted ? { size: meta.size, meta: meta.metadata ?? {} } : undefined
  }

  async list(): Promise<string[]> {
    return (await this.#metas()).filter(({ meta }) => !meta.deleted).map(({ meta }) => meta.name)
  }

  async delete(name: string, how?: 'overwrite'): Promise<void> {
    const meta = await this.#meta(name)
    if (!meta) return
    // One that says so already was left by who died before its purges.
    if (!meta.deleted) {
      if (how) await this.#overwrite(meta.nuid)
      await this.#putMeta({ ...meta, deleted: true, size: 0, chunks: 0, digest: '' })
    }
    await this.#purge(meta.nuid)
    // What says that it is deleted would stay for ever, of each segment that is removed.
    await this.#context.api.must(`STREAM.PURGE.${this.#stream}`, { filter: this.#metaSubject(name) })
  }

  async sweep(before: number): Promise<string[]> {
    const unnamed = await this.#lastChunks()
    // In this order: what is whole meanwhile is named by now.
    const metas = await this.#metas()
    const deleted = metas.filter(({ meta }) => meta.deleted)
    for (const { meta } of metas) if (!meta.deleted) unnamed.delete(meta.nuid)
    const over = new Set(deleted.map(({ meta }) => meta.nuid))
    const young: string[] = []
    for (const [id, time] of unnamed) {
      if (time >= before && !over.has(id)) young.push(id)
      else await this.#overwrite(id)
    }
    // By its sequence: somebody may write an object of that name anew.
    for (const { sequence } of deleted) await this.#deleteMessage(sequence)
    return young
  }

  /** What stands in the bucket, and what says that it is deleted. */
  async #metas(): Promise<{ sequence: number; meta: ObjectMeta }[]> {
    const found: { sequence: number; meta: ObjectMeta }[] = []
    await this.#read('M', ({ sequence, data }) => {
      const meta = jsonOf(data) as ObjectMeta | undefined
      if (meta && typeof meta.name === 'string') found.push({ sequence, meta })
    })
    return found
  }

  /** When the last chunk of each writing was stored, by its id (server ms). */
  async #lastChunks(): Promise<Map<string, number>> {
    const base = this.#chunk('').length
    const found = new Map<string, number>()
    await this.#read('C', ({ subject, time }) => void found.set(subject.slice(base), time))
    return found
  }

  /** The last message of each subject; of chunks only their headers. */
  async #read(what: 'C' | 'M', onMessage: (stored: Stored) => void): Promise<void> {
    await using reader = await new StreamReader(this.#context, {
      stream: this.#stream,
      filters: [`$O.${this.#context.bucket}.${what}.>`],
      start: 'last_per_subject',
      headers_only: what === 'C',
      onMessage,
    }).open()
    await Promise.race([reader.caughtUp, reader.closed])
  }

  /** Chunks keep their order since one connection carries them; a bounded number is on its way. */
  async #putChunks(id: string, chunks: AsyncIterable<Uint8Array>, hash: Hash): Promise<{ size: number; chunks: number }> {
    const flying: Promise<Outcome>[] = []
    let size = 0
    let count = 0
    for await (const data of chunks) {
      hash.update(data)
      size += data.length
      count += 1
      flying.push(this.#context.publisher.publish({ subject: this.#chunk(id), data }))
      if (flying.length >= this.#pace.in_flight) mustBeStored(await flying.shift())
    }
    for (const outcome of await Promise.all(flying)) mustBeStored(outcome)
    return { size, chunks: count }
  }

  async #putMeta(meta: ObjectMeta): Promise<void> {
    const message: Outgoing = {
      subject: this.#metaSubject(meta.name),
      data: new TextEncoder().encode(JSON.stringify(meta)),
      headers: ROLLUP,
    }
    mustBeStored(await this.#context.publisher.publish(message))
  }

  async #meta(name: string): Promise<ObjectMeta | undefined> {
    const stored = await this.#context.api.direct(this.#stream, this.#metaSubject(name))
    return stored && (jsonOf(stored.data) as ObjectMeta | undefined)
  }

  /** Chunk by chunk: a purge leaves their bytes on disk until the server compacts. */
  async #overwrite(id: string): Promise<void> {
    for (let seq = 1; ; ) {
      const chunk = await this.#context.api.directNext(this.#stream, { seq, next_by_subj: this.#chunk(id) })
      if (!chunk) return
      await this.#deleteMessage(chunk.sequence)
      seq = chunk.sequence + 1
    }
  }

  /** With overwriting. */
  async #deleteMessage(seq: number): Promise<void> {
    const reply = await this.#context.api.call(`STREAM.MSG.DELETE.${this.#stream}`, { seq, no_erase: false })
    // Another one may be at it, too.
    if (!reply.ok && !API_ERROR.messageGone.has(reply.err_code)) throw new ObjectError(`${seq} was not deleted: ${reply.description}`)
  }

  async #purge(id: string): Promise<void> {
    await this.#context.api.must(`STREAM.PURGE.${this.#stream}`, { filter: this.#chunk(id) })
  }

  #chunk(id: string): string {
    return `$O.${this.#context.bucket}.C.${id}`
  }

  #metaSubject(name: string): string {
    if (name === '') throw new TypeError('an object has a name')
    const text = Buffer.from(name).toString('base64').replaceAll('+', '-').replaceAll('/', '_')
    return `$O.${this.#context.bucket}.M.${text}`
  }
}

function mustBeStored(outcome: Outcome | undefined): void {
  if (!outcome || outcome.kind === 'stored') return
  const why = 'description' in outcome ? outcome.description : outcome.kind
  if (outcome.kind === 'unknown') throw new BusReadError(`object: ${why}`, 'timeout')
  throw new ObjectError(`object was not written: ${why}`)
}

function digestText(hash: Hash): string {
  return `SHA-256=${hash.digest('base64').replaceAll('+', '-').replaceAll('/', '_')}`
}
