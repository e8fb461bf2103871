import { beforeEach, expect, it, vi } from 'vitest'
import { readHeaders } from '../wire/headers.js'
import type { PublishMessage, StoredMessage } from '../wire/messages.js'
import { BucketObjects } from './object-store.js'
import type { ObjectContext } from './object-stream.js'

/** What a reader hands on: the last of each subject, as far as the replica is on which it reads. */
interface Read {
  filters: string[]
  onMessage: (stored: StoredMessage) => void
}
const server = vi.hoisted(() => ({ read: (_: Read): void => undefined }))
vi.mock('../consumers/ordered-consumer.js', () => ({
  OrderedConsumer: class {
    caughtUp = Promise.resolve()
    closed = new Promise(() => undefined)
    constructor(
      _: unknown,
      private readonly options: Read,
    ) {}
    async open() {
      server.read(this.options)
      return this
    }
    async [Symbol.asyncDispose]() {}
  },
}))
vi.mock('../clock/with-timeout.js', () => ({
  withTimeout: (_: number, work: Promise<unknown>) => Promise.race([work, new Promise(setImmediate)]),
}))

const matches = (filter: string, subject: string) => (filter.endsWith('>') ? subject.startsWith(filter.slice(0, -1)) : subject === filter)

/** A bucket on a server that stores what it is told. */
class Server {
  stored: StoredMessage[] = []
  calls: string[] = []
  last = 0
  /** What some replica has not got yet, by the filter that is read. */
  lags: Record<string, number> = {}
  onPublish: (subject: string) => void = () => undefined
  undeletable = false

  constructor() {
    server.read = ({ filters, onMessage }) => {
      const until = this.lags[filters[0] ?? ''] ?? Number.POSITIVE_INFINITY
      const newest = new Map(this.stored.filter(({ sequence }) => sequence <= until).map((stored) => [stored.subject, stored]))
      const found = [...newest.values()].filter(({ subject }) => filters.some((filter) => matches(filter, subject)))
      for (const stored of found.sort((a, b) => a.sequence - b.sequence)) onMessage(stored)
    }
  }

  objects(overwrites = true): BucketObjects {
    const standing = (seq: number) => this.stored.find(({ sequence }) => sequence === seq)
    const api = {
      direct: async (_: string, subject: string) => this.stored.findLast((stored) => stored.subject === subject),
      directAt: async (_: string, seq: number) => standing(seq),
      directNext: async (_: string, { seq, next_by_subj }: { seq: number; next_by_subj: string }) =>
        this.stored.find(({ sequence, subject }) => sequence >= seq && subject === next_by_subj),
      call: async (call: string, { seq }: { seq: number }) => {
        this.calls.push(call)
        if (this.undeletable || !standing(seq)) return { ok: false, err_code: 10057, description: 'no' }
        this.stored = this.stored.filter(({ sequence }) => sequence !== seq)
        return { ok: true }
      },
      must: async (call: string, { filter }: { filter: string }) => {
        this.calls.push(call)
        this.stored = this.stored.filter(({ subject }) => subject !== filter)
      },
    }
    const publisher = { publish: async (message: PublishMessage) => this.publish(message) }
    const context = { link: { maxPayload: 1_000_000 }, api, publisher, bucket: 'b', overwrites }
    return new BucketObjects({ ...(context as unknown as ObjectContext), chunk_bytes: 4 })
  }

  publish({ subject, data = new Uint8Array(), guard }: PublishMessage) {
    this.onPublish(subject)
    if (guard && (this.stored.findLast((one) => one.subject === guard.subject)?.sequence ?? 0) !== guard.sequence) return { kind: 'lost' }
    if (subject.includes('.M.')) this.stored = this.stored.filter((one) => one.subject !== subject)
    this.last += 1
    this.stored.push({ subject, sequence: this.last, time: this.last, data, headers: readHeaders('NATS/1.0\r\n\r\n') })
    return { kind: 'stored', sequence: this.last }
  }

  /** A writer that is to be told to go on. */
  async writing(name: string, more?: Uint8Array) {
    let goOn: () => void = () => undefined
    const held = new Promise<void>((resolve) => {
      goOn = resolve
    })
    async function* pieces() {
      yield DATA.subarray(0, 4)
      await held
      if (more) yield more
    }
    const before = this.last
    const put = this.objects().put(name, pieces() as unknown as ReadableStream<Uint8Array>)
    await vi.waitUntil(() => this.last > before)
    return { goOn, put }
  }
}

const DATA = Buffer.from('12345678')
const LATER = 1_000

let bucket: Server
beforeEach(() => {
  bucket = new Server()
})

it.each(['$O.b.M.>', '$O.b.C.>'])('a sweep takes nothing where the replica that tells of %s lags', async (filter) => {
  const objects = bucket.objects()
  await objects.put('lately', DATA)
  bucket.lags[filter] = 2
  await expect(objects.sweep(LATER)).rejects.toThrow('not read up to')
  expect(Buffer.from((await objects.get('lately')) ?? [])).toEqual(DATA)
  // Nothing of its own stays, either.
  expect(bucket.stored.length).toBe(3)
})

it.each([undefined, DATA])('who slept while its chunks were given up stores neither more (%s) nor a name', async (more) => {
  const objects = bucket.objects()
  const { goOn, put } = await bucket.writing('late', more)
  expect(await objects.sweep(0)).toHaveLength(1)
  expect(await objects.sweep(LATER)).toEqual([])
  expect(bucket.stored).toEqual([])
  goOn()
  await expect(put).rejects.toThrow('lost')
  expect(await objects.list()).toEqual([])
  expect(bucket.stored).toEqual([])
})

it('what is named, or goes on, in the moment in which it is given up stays whole, and may become an object yet', async () => {
  for (const id of ['named', 'grows']) bucket.publish({ subject: `$O.b.C.${id}`, data: DATA })
  const meta = Buffer.from(JSON.stringify({ name: 'name', nuid: 'named', chunks: 1 }))
  bucket.onPublish = (subject) => {
    if (subject.includes('mark-')) return
    bucket.onPublish = () => undefined
    bucket.publish({ subject: '$O.b.M.name', data: meta })
    bucket.publish({ subject: '$O.b.C.grows', data: DATA })
  }
  expect((await bucket.objects().sweep(LATER)).sort()).toEqual(['grows', 'named'])
  const standing = bucket.stored.map(({ subject, data }) => [subject, data.length])
  expect(standing.sort()).toEqual([
    ['$O.b.C.grows', DATA.length],
    ['$O.b.C.grows', DATA.length],
    ['$O.b.C.named', DATA.length],
    ['$O.b.M.name', meta.length],
  ])
})

it.each([true, false])(
  'what a failed writing leaves, and one that is written anew, is overwritten where the bucket is: %s',
  async (overwrites) => {
    const objects = bucket.objects(overwrites)
    await objects.put('again', DATA)
    await objects.put('again', DATA)
    const deletions = () => bucket.calls.filter((call) => call.startsWith('STREAM.MSG.DELETE')).length
    expect(deletions()).toBe(overwrites ? 2 : 0)
    async function* broken() {
      yield DATA.subarray(0, 4)
      throw new Error('broke off')
    }
    await expect(objects.put('failed', broken() as unknown as ReadableStream<Uint8Array>)).rejects.toThrow('broke off')
    expect(deletions()).toBe(overwrites ? 3 : 0)
    expect(bucket.stored.length).toBe(3)
  },
)

it('what the server does not delete is not taken for gone', async () => {
  const objects = bucket.objects()
  await objects.put('stays', DATA)
  bucket.undeletable = true
  await expect(objects.delete('stays', 'overwrite')).rejects.toThrow('was not deleted')
  expect(bucket.stored.length).toBe(3)
})
