import {
  DECISIONS,
  DISPATCHER,
  deliveriesOf,
  type EnsureAgent,
  encodeHeaders,
  type PublishResult,
  type ReceivedReturn,
  type Subjects,
} from '@passover/bus'
import { PRIORITIES } from '@passover/schemas'
import type { Spoilt } from '../plans/spoil.js'
import type { World } from '../world.js'
import { type ConsumerConfig, SimConsumer } from './consumer.js'
import type { Line } from './network-line.js'
import { SimTable } from './stores-table.js'
import { type Kept, matches, type Sent, SimStream } from './stream.js'

/** Whoever listens to core messages. */
export interface Ear {
  filter: string
  line: Line
  /** One of those with the same queue hears it. */
  queue?: string
  hear: (message: CoreMessage) => void
}

export interface CoreMessage {
  subject: string
  heard?: ReceivedReturn
  data?: unknown
  reply?: (value: unknown) => void
}

/** An ordered reader's place at the server. */
export interface Reader {
  line: Line
  filters: string[] | undefined
  next: number
  /** What was stored when it began. */
  goal: number
  hand: (kept: Kept | 'caught up') => void
}

/** Told of everything that matters, at once. */
export interface Watcher {
  stored(kept: Kept): void
  deleted(kept: Kept): void
  acked(consumer: string, sequence: number): void
}

const DISPATCHER_ACK_WAIT_MS = 5_000
const DISPATCHER_DELIVERIES = 30

/** The server with its one stream, its consumers, buckets and core subjects. */
export class SimServer {
  readonly world: World
  readonly subjects: Subjects
  readonly stream: SimStream
  readonly consumers = new Map<string, SimConsumer>()
  readonly tables = new Map<string, SimTable>()
  readonly objects = new Map<string, Map<string, { data: Uint8Array; meta: Record<string, string> }>>()
  readonly ears = new Set<Ear>()
  readonly readers = new Set<Reader>()
  readonly lines = new Set<Line>()
  requests: 'open' | 'closed' = 'open'
  /** How the requests of planned passes, by name, leave whoever sends them. */
  readonly spoilt = new Map<string, Spoilt>()
  up = true
  watcher: Watcher = { stored: () => undefined, deleted: () => undefined, acked: () => undefined }

  /** `segment`: how many messages there are of each segment of the archive. */
  constructor(world: World, subjects: Subjects, segment?: number) {
    this.world = world
    this.subjects = subjects
    this.stream = new SimStream(segment)
  }

  /** A connection stands; when it breaks all that it had here is gone. */
  connect(line: Line): void {
    this.lines.add(line)
    line.onDisconnect.add(() => {
      for (const ear of this.ears) if (ear.line === line) this.ears.delete(ear)
      for (const reader of this.readers) if (reader.line === line) this.readers.delete(reader)
      for (const consumer of this.consumers.values()) consumer.drop(line)
      for (const table of this.tables.values()) table.drop(line)
    })
  }

  publish(sent: Sent, by: string): PublishResult {
    for (const ear of this.ears) {
      if (ear.hear && matches(ear.filter, sent.subject)) ear.line.down(() => ear.hear({ subject: sent.subject }), 'core')
    }
    if (this.requests === 'closed' && sent.subject.startsWith('request.'))
      return { kind: 'refused', reason: 'closed', description: 'no stream takes it' }
    const { kept, ...outcome } = this.stream.store(sent, { time: this.world.now, by })
    if (kept) this.#onStored(kept)
    return outcome
  }

  delete(sequence: number): boolean {
    const kept = this.stream.get(sequence)
    if (kept) this.watcher.deleted(kept)
    return this.stream.delete(sequence)
  }

  ensureConsumer(config: ConsumerConfig): SimConsumer {
    const known = this.consumers.get(config.name)
    if (known) {
      known.config = { ...config, from: known.config.from }
      return known
    }
    const made = new SimConsumer(this.world, this.stream, config)
    made.onAck = (sequence) => this.watcher.acked(config.name, sequence)
    made.onGivenUp = (sequence, deliveries) => this.#advise(config.name, sequence, deliveries)
    this.consumers.set(config.name, made)
    return made
  }

  ensureDispatchers(): void {
    const shared = { ack_wait_ms: DISPATCHER_ACK_WAIT_MS, max_deliver: DISPATCHER_DELIVERIES, from: 1 }
    this.ensureConsumer({ name: DISPATCHER, filters: [this.subjects.all('request')], ...shared })
    this.ensureConsumer({ name: DECISIONS, filters: [this.subjects.allDecisions('dispatch')], ...shared })
  }

  ensureWork(agent: string, how: EnsureAgent): void {
    for (const priority of PRIORITIES) {
      const filters = [this.subjects.allWork(agent, priority)]
      const name = this.subjects.workConsumer(agent, priority)
      if (how.lost === 'leave' && !this.consumers.has(name)) continue
      this.ensureConsumer({ name, filters, ack_wait_ms: how.lease_ms, max_deliver: deliveriesOf(how.max_attempts), from: how.from ?? 1 })
    }
  }

  removeConsumer(name: string): void {
    this.consumers.get(name)?.remove()
    this.consumers.delete(name)
  }

  table(bucket: string): SimTable {
    const known = this.tables.get(bucket) ?? new SimTable()
    this.tables.set(bucket, known)
    return known
  }

  bucket(name: string): Map<string, { data: Uint8Array; meta: Record<string, string> }> {
    const known = this.objects.get(name) ?? new Map()
    this.objects.set(name, known)
    return known
  }

  read(reader: Reader): void {
    reader.goal = this.stream.last
    this.readers.add(reader)
    this.#hand(reader)
  }

  /** Asks one of those who answer; false: nobody is there. */
  ask(subject: string, data: unknown, reply: (value: unknown) => void): boolean {
    const able = [...this.ears].filter((ear) => ear.queue !== undefined && matches(ear.filter, subject))
    if (able.length === 0) return false
    const ear = this.world.dice.pick(able)
    ear.line.down(() => ear.hear({ subject, data, reply }), 'core')
    return true
  }

  hint(subject: string): void {
    for (const ear of this.ears) if (matches(ear.filter, subject)) ear.line.down(() => ear.hear({ subject }), 'core')
  }

  /** It is killed and comes back: connections are gone, and what its consumers did of late is forgotten. */
  restart(forget_ms: number): void {
    for (const line of this.lines) line.cut()
    for (const consumer of this.consumers.values()) consumer.forget(forget_ms)
  }

  #onStored(kept: Kept): void {
    this.watcher.stored(kept)
    for (const consumer of this.consumers.values()) consumer.pump()
    for (const reader of this.readers) this.#hand(reader)
    const parsed = this.subjects.parse(kept.subject)
    if (parsed.kind !== 'step' || parsed.step !== 'return') return
    const { key, by } = parsed
    const subject = this.subjects.returned(key, by)
    const heard: ReceivedReturn = { key, by, stored: kept }
    for (const ear of this.ears) if (matches(ear.filter, subject)) ear.line.down(() => ear.hear({ subject, heard }), 'core')
  }

  #hand(reader: Reader): void {
    for (;;) {
      if (reader.goal >= 0 && reader.next > reader.goal) {
        reader.goal = -1
        reader.line.down(() => reader.hand('caught up'), 'reader')
      }
      const kept = this.stream.nextOf(reader.filters, reader.next)
      if (!kept) {
        if (reader.goal < 0) return
        reader.next = this.stream.last + 1
        continue
      }
      reader.next = kept.sequence + 1
      // Nothing of what was there at the beginning is left before it.
      if (reader.goal >= 0 && kept.sequence > reader.goal) {
        reader.goal = -1
        reader.line.down(() => reader.hand('caught up'), 'reader')
      }
      reader.line.down(() => reader.hand(kept), 'reader')
    }
  }

  #advise(consumer: string, stream_seq: number, deliveries: number): void {
    const subject = `$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.${this.subjects.stream}.${consumer}`
    const data = Buffer.from(JSON.stringify({ stream: this.subjects.stream, consumer, stream_seq, deliveries }))
    this.publish({ subject, block: encodeHeaders({}), data, guard: undefined }, 'server')
  }
}
