import { createHash, type Hash } from 'node:crypto'
import { nuid } from '@nats-io/transport-node'
import type { ObjectData, ObjectStore } from '../types/stores.js'
import type { Guard } from '../wire/messages.js'
import { sweep } from './object-gc.js'
import { type ObjectContext, ObjectError, type ObjectMeta, ObjectStream } from './object-stream.js'

/** Maximum chunk size. */
const CHUNK_BYTES = 512 * 1024
/** Maximum chunk size on a connection that also carries latency-critical messages: they wait for one chunk at most. */
const BESIDE_BYTES = 128 * 1024
/** Buckets that a dispatcher writes, whose connection also carries admissions. */
const BESIDE_OTHERS = new Set(['snapshots'])
/** Buckets whose deleted bytes are overwritten on disk. Only their writers may delete single messages. */
const OVERWRITTEN = new Set(['archive'])
const ROLLUP = { 'Nats-Rollup': 'sub' }

/** Returns the chunk size and the deletion mode of a bucket. */
export function objectStoreMode(bucket: string): { chunk_bytes: number; overwrites: boolean } {
  return { chunk_bytes: BESIDE_OTHERS.has(bucket) ? BESIDE_BYTES : CHUNK_BYTES, overwrites: OVERWRITTEN.has(bucket) }
}

/**
 * An object bucket in the standard NATS layout. The client's own store leaves a consumer behind for every read; this one reads by direct gets. Each
 * message of an upload is guarded by its previous one: a writer whose upload was removed as abandoned (`sweep`) can store no further chunk and no
 * metadata.
 */
export class BucketObjects implements ObjectStore {
  readonly #context: ObjectContext
  readonly #stream: ObjectStream
  readonly #chunk_bytes: number

  constructor(context: ObjectContext & { chunk_bytes: number }) {
    this.#context = context
    this.#stream = new ObjectStream(context)
    this.#chunk_bytes = context.chunk_bytes
  }

  async put(name: string, data: ObjectData, meta?: Record<string, string>): Promise<void> {
    const id = nuid.next()
    let old: ObjectMeta | undefined
    const size = Math.min(this.#chunk_bytes, this.#context.link.maxPayload - 4096)
    const hash = createHash('sha256')
    try {
      const { last, ...written } = await this.#putChunks(id, chunked(data, size), hash)
      // Another writer may have stored an object of that name meanwhile: the last writer removes the one it replaces.
      old = await this.#stream.meta(name)
      const described = {
        name,
        bucket: this.#context.bucket,
        nuid: id,
        ...written,
        digest: digestText(hash),
        mtime: new Date().toISOString(),
        options: { max_chunk_size: size },
        ...(meta ? { metadata: meta } : {}),
      }
      await this.#putMeta(described, { subject: this.#stream.chunk(id), sequence: last })
    } catch (error) {
      await this.#stream.removeChunks(id).catch(() => undefined)
      throw error
    }
    if (old) await this.#stream.removeChunks(old.nuid)
  }

  async get(name: string): Promise<Uint8Array | undefined> {
    const meta = await this.#stream.meta(name)
    if (!meta || meta.deleted) return undefined
    const { api } = this.#context
    const chunks: Uint8Array[] = []
    const hash = createHash('sha256')
    for (let seq = 1, n = 0; n < meta.chunks; n += 1) {
      const chunk = await api.directNext(this.#stream.name, { seq, next_by_subj: this.#stream.chunk(meta.nuid) })
      if (!chunk) throw new ObjectError(`${this.#context.bucket}/${name}: chunk ${n + 1} of ${meta.chunks} is missing`)
      chunks.push(chunk.data)
      hash.update(chunk.data)
      seq = chunk.sequence + 1
    }
    if (digestText(hash) !== meta.digest) throw new ObjectError(`${this.#context.bucket}/${name} does not match its digest`)
    return Buffer.concat(chunks)
  }

  async info(name: string): Promise<{ size: number; meta: Record<string, string> } | undefined> {
    const meta = await this.#stream.meta(name)
    return meta && !meta.deleted ? { size: meta.size, meta: meta.metadata ?? {} } : undefined
  }

  async list(): Promise<string[]> {
    const names: string[] = []
    await this.#stream.metas(({ name, deleted }) => {
      if (!deleted) names.push(name)
    })
    return names
  }

  async delete(name: string, how?: 'overwrite'): Promise<void> {
    const meta = await this.#stream.meta(name)
    if (!meta) return
    // If it is already marked as deleted, an earlier process died before its purges.
    if (!meta.deleted) {
      if (how) await this.#stream.overwrite(meta.nuid)
      await this.#putMeta({ ...meta, deleted: true, size: 0, chunks: 0, digest: '' })
    }
    await this.#stream.purge(this.#stream.chunk(meta.nuid))
    // Otherwise the deletion marker of every removed segment would remain forever.
    await this.#stream.purge(this.#stream.metaSubject(name))
  }

  sweep(before: number): Promise<string[]> {
    return sweep(this.#stream, before)
  }

  async #putChunks(id: string, chunks: AsyncIterable<Uint8Array>, hash: Hash): Promise<{ size: number; chunks: number; last: number }> {
    const subject = this.#stream.chunk(id)
    let [size, count, last] = [0, 0, 0]
    for await (const data of chunks) {
      hash.update(data)
      size += data.length
      count += 1
      last = await this.#stream.publish({ subject, data, guard: { subject, sequence: last } })
    }
    return { size, chunks: count, last }
  }

  async #putMeta(meta: ObjectMeta, guard?: Guard): Promise<void> {
    await this.#stream.publish({
      subject: this.#stream.metaSubject(meta.name),
      data: new TextEncoder().encode(JSON.stringify(meta)),
      headers: ROLLUP,
      ...(guard ? { guard } : {}),
    })
  }
}

function digestText(hash: Hash): string {
  return `SHA-256=${hash.digest('base64').replaceAll('+', '-').replaceAll('/', '_')}`
}

/** Splits bytes, or pieces of any size, into chunks of `size`. */
async function* chunked(data: ObjectData, size: number): AsyncIterable<Uint8Array> {
  let rest: Uint8Array = new Uint8Array(0)
  const pieces = data instanceof Uint8Array ? [data] : (data as unknown as AsyncIterable<Uint8Array>)
  for await (const piece of pieces) {
    let from = 0
    if (rest.length > 0) {
      from = Math.min(piece.length, size - rest.length)
      rest = Buffer.concat([rest, piece.subarray(0, from)])
      if (rest.length < size) continue
      yield rest
    }
    for (; piece.length - from >= size; from += size) yield piece.subarray(from, from + size)
    rest = piece.subarray(from)
  }
  if (rest.length > 0) yield rest
}
