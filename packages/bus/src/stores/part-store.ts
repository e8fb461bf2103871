import type { Part } from '@passover/schemas'
import { sha256 } from '@passover/schemas'
import type { Connection } from '../connection/connection.js'
import type { JetStreamApi } from '../messaging/jetstream-api.js'
import { API_ERROR, jsonOf } from '../messaging/jetstream-api.js'
import type { Publisher } from '../messaging/publisher.js'
import type { Subjects } from '../subjects/subjects.js'
import { refused } from '../topology/ensure-resource.js'
import { BusReadError, PartError, PartsFullError, PartTakenError, type ReadFailure } from '../types/errors.js'
import type { PartStore } from '../types/stores.js'
import type { PublishMessage, PublishResult } from '../wire/messages.js'
import { ByteLimiter } from './byte-limiter.js'
import { type PartCipher, partCipher } from './part-encryption.js'
import { type LoadedPart, tooLarge } from './payload-parts.js'

const CHUNK_BYTES = 512 * 1024
const CONCURRENCY = 8
const MAX_CHUNKS = 16_384
/** Largest part that is loaded, and total bytes of parts that one process loads at a time. */
const MAX_PART_BYTES = 256 * 1024 * 1024
const MAX_LOADING_BYTES = 128 * 1024 * 1024
/**
 * Total bytes of parts that one process is sending to the server. Each message must be acknowledged within the publish timeout, which begins when it
 * is sent, so messages must not be sent before they can be processed.
 */
const MAX_STORING_BYTES = 8 * 1024 * 1024
/** Default limit for the total bytes of all parts of one output, since a worker chooses what it returns. */
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024

interface PartMeta {
  size: number
  chunks: number
}

interface BucketInfo {
  state: { num_subjects?: number; subjects?: Record<string, number> }
  /** Number of matching subjects over all pages. */
  total?: number
}

interface Place {
  stream: string
  base: Record<'C' | 'M', string>
}

/**
 * Stores large parts in the streams of the object buckets `parts_<agent>`: `$O.parts.<agent>.C.<token>.<n>` contains the encrypted bytes, and
 * `$O.parts.<agent>.M.<token>`, written last, marks the part as complete. Every read is an exact direct get, which permissions can restrict to a
 * bucket and which leaves no consumer behind. Only the hash decrypts a part (see PartCipher).
 */
export class BucketPartStore implements PartStore {
  readonly #link: Connection
  readonly #api: JetStreamApi
  readonly #publisher: Publisher
  readonly #subjects: Subjects
  readonly #loading = new ByteLimiter(MAX_LOADING_BYTES)
  readonly #storing = new ByteLimiter(MAX_STORING_BYTES)

  constructor(context: { link: Connection; api: JetStreamApi; publisher: Publisher; subjects: Subjects }) {
    this.#link = context.link
    this.#api = context.api
    this.#publisher = context.publisher
    this.#subjects = context.subjects
  }

  async upload(owner: string, parts: Part[], moved: ReadonlySet<Part> = tooLarge(parts.filter(isHere))): Promise<Part[]> {
    return Promise.all(parts.map((part) => (moved.has(part) ? this.#move(owner, part) : part)))
  }

  async fetch(part: Part): Promise<Uint8Array> {
    const { owner } = part
    if (!part.data && part.size > MAX_PART_BYTES) throw tooLargeToLoad(part.name, part.size, MAX_PART_BYTES)
    const found = part.data ?? (owner === undefined ? undefined : await this.#loading.do(part.size, () => this.#load(owner, part)))
    if (!found || found === 'unanswered')
      throw new PartError(`part ${part.name} is missing (${part.hash.slice(0, 12)})`, 'missing', found !== undefined)
    const data = found
    if (data.length !== part.size || sha256(data) !== part.hash) throw new PartError(`part ${part.name} does not match its hash`, 'differs')
    return data
  }

  async list(owner: string, most: number): Promise<ReadonlySet<string> | undefined> {
    const stream = `OBJ_${this.#subjects.partsBucket(owner)}`
    const found = new Set<string>()
    try {
      const held = await this.#info(stream)
      if (held && (held.state.num_subjects ?? 0) > most) return undefined
      for (const base of held ? [this.#subjects.parts(owner, 'M'), this.#subjects.earlierParts(owner, 'M')] : []) {
        for (let offset = 0; ; ) {
          const info = await this.#info(stream, { subjects_filter: `${base}.>`, offset })
          const names = Object.keys(info?.state.subjects ?? {})
          for (const name of names) found.add(name.slice(base.length + 1))
          offset += names.length
          if (names.length === 0 || offset >= (info?.total ?? 0)) break
        }
      }
      return found
    } catch (error) {
      if (error instanceof BusReadError && error.reason === 'permission') return undefined
      throw error
    }
  }

  remove(owner: string, hash: string): Promise<void> {
    return this.removeToken(owner, partCipher(hash).token)
  }

  async removeToken(owner: string, token: string): Promise<void> {
    for (const { base, stream } of [this.#place(owner, { token }), this.#earlierPlace(owner, { token })]) {
      await this.#api.must(`STREAM.PURGE.${stream}`, { filter: `${base.M}` })
      await this.#api.must(`STREAM.PURGE.${stream}`, { filter: `${base.C}.*` })
    }
  }

  async #info(stream: string, question?: { subjects_filter: string; offset: number }): Promise<BucketInfo | undefined> {
    const reply = await this.#api.call<BucketInfo>(`STREAM.INFO.${stream}`, question)
    if (reply.ok) return reply.value
    if (reply.err_code === API_ERROR.streamNotFound) return undefined
    throw refused(`stream ${stream}`, reply)
  }

  #place(owner: string, { token }: Pick<PartCipher, 'token'>): Place {
    const at = (what: 'C' | 'M') => `${this.#subjects.parts(owner, what)}.${token}`
    return { stream: `OBJ_${this.#subjects.partsBucket(owner)}`, base: { C: at('C'), M: at('M') } }
  }

  /** Returns where earlier versions stored parts. */
  #earlierPlace(owner: string, { token }: Pick<PartCipher, 'token'>): Place {
    const at = (what: 'C' | 'M') => `${this.#subjects.earlierParts(owner, what)}.${token}`
    return { stream: `OBJ_${this.#subjects.partsBucket(owner)}`, base: { C: at('C'), M: at('M') } }
  }

  async #move(owner: string, part: Part): Promise<Part> {
    const { data, ...rest } = part
    const cipher = partCipher(part.hash)
    const { base, stream } = this.#place(owner, cipher)
    if (!data) return part
    const stored = await this.#get(stream, base.M)
    if (stored && stored !== 'unanswered') return { ...rest, owner }
    const size = Math.min(CHUNK_BYTES, this.#link.maxPayload - 4096)
    const chunks = Math.max(1, Math.ceil(data.length / size))
    await inTurns(chunks, (n) =>
      this.#storing.do(size, () =>
        this.#put(owner, stream, { subject: `${base.C}.${n}`, data: cipher.apply(data.subarray(n * size, (n + 1) * size), n) }),
      ),
    )
    const meta: PartMeta = { size: data.length, chunks }
    await this.#put(owner, stream, { subject: base.M, data: new TextEncoder().encode(JSON.stringify(meta)) })
    return { ...rest, owner }
  }

  /** Stores a message of a part. An earlier, possibly incomplete upload of the same part stored the same bytes, which are kept. */
  async #put(owner: string, stream: string, message: PublishMessage & { data: Uint8Array }): Promise<void> {
    const outcome = await this.#publisher.publish(message)
    if (outcome.kind === 'stored') return
    if (outcome.kind === 'refused' && outcome.reason === 'exists') {
      const stored = await this.#get(stream, message.subject)
      if (stored instanceof Uint8Array && Buffer.compare(stored, message.data) === 0) return
      // A lagging replica answers without it.
      if (!(stored instanceof Uint8Array)) throw new BusReadError(`part was not stored: ${message.subject} cannot be read`, 'timeout')
      throw new PartTakenError(message.subject)
    }
    if (outcome.kind === 'refused' && outcome.reason === 'full') throw new PartsFullError(owner, outcome.description)
    const why = 'description' in outcome ? outcome.description : outcome.kind
    throw new BusReadError(`part was not stored: ${why}`, failureOf(outcome))
  }

  async #load(owner: string, part: Part): Promise<Found> {
    const cipher = partCipher(part.hash)
    return (
      (await this.#loadFrom(this.#place(owner, cipher), cipher, part)) ?? this.#loadFrom(this.#earlierPlace(owner, cipher), cipher, part)
    )
  }

  async #loadFrom({ base, stream }: Place, cipher: PartCipher, part: Part): Promise<Found> {
    const found = await this.#get(stream, base.M)
    if (found === 'unanswered') return found
    const meta = found && (jsonOf(found) as PartMeta | undefined)
    if (!meta || meta.size !== part.size || !(meta.chunks > 0 && meta.chunks <= MAX_CHUNKS)) return undefined
    let loaded = 0
    const chunks = await inTurns(meta.chunks, async (n) => {
      // The owner wrote the number of chunks and the size of each: do not load more than the part may have.
      const chunk = loaded > part.size ? undefined : await this.#get(stream, `${base.C}.${n}`)
      loaded += chunk === 'unanswered' ? 0 : (chunk?.length ?? 0)
      return chunk
    })
    if (chunks.includes('unanswered')) return 'unanswered'
    const opened = chunks.flatMap((chunk, n) => (chunk && chunk !== 'unanswered' ? [cipher.apply(chunk, n)] : []))
    return opened.length === chunks.length ? Buffer.concat(opened) : undefined
  }

  async #get(stream: string, subject: string): Promise<Found> {
    try {
      return (await this.#api.direct(stream, subject))?.data
    } catch (error) {
      if (!(error instanceof BusReadError)) throw error
      if (error.reason === 'permission') return undefined
      // The bucket does not exist or has no leader, or this account does not import the subject.
      if (error.reason === 'no_responders') return 'unanswered'
      throw error
    }
  }
}

/** The bytes, `unanswered` if the bucket does not answer, or `undefined` if they do not exist. */
type Found = Uint8Array | 'unanswered' | undefined

function failureOf(outcome: Exclude<PublishResult, { kind: 'stored' }>): ReadFailure {
  if (outcome.kind === 'unknown') return 'timeout'
  if (outcome.kind === 'refused' && outcome.reason === 'closed') return 'no_responders'
  return outcome.kind === 'refused' && outcome.reason === 'permission' ? 'permission' : 'refused_by_server'
}

/**
 * Fetches the bytes of parts, a few at a time.
 *
 * @param most - maximum total bytes, checked before any part is loaded
 * @throws PartError
 */
export async function loadParts(store: Pick<PartStore, 'fetch'>, parts: Part[], most = MAX_OUTPUT_BYTES): Promise<LoadedPart[]> {
  const odd = parts.find(({ size }) => !Number.isSafeInteger(size) || size < 0)
  // The sender chooses these values: with a negative size the others would appear to fit.
  if (odd) throw new PartError('the size of a part is not a whole number of bytes', 'differs')
  const bytes = parts.reduce((sum, { size }) => sum + size, 0)
  if (bytes > most) throw tooLargeToLoad('all parts', bytes, most)
  return inTurns(parts.length, async (n) => {
    const part = parts[n] as Part
    return { name: part.name, data: await store.fetch(part) }
  })
}

function tooLargeToLoad(what: string, size: number, most: number): PartError {
  return new PartError(`${what}: ${size} bytes, but at most ${most} may be loaded`, 'too_large')
}

function isHere({ data }: Part): boolean {
  return data !== undefined
}

/** Runs `work` for 0 … count-1 with limited concurrency. Returns the results in order. */
async function inTurns<T>(count: number, work: (n: number) => Promise<T>): Promise<T[]> {
  const results = new Array<T>(count)
  let next = 0
  const runner = async () => {
    for (let n = next++; n < count; n = next++) results[n] = await work(n)
  }
  await Promise.all(Array.from({ length: Math.min(CONCURRENCY, count) }, runner))
  return results
}
