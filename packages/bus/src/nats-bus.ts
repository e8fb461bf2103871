import type { Fact, Priority } from '@passover/schemas'
import type { z } from 'zod'
import { withTimeout } from './clock/with-timeout.js'
import { DisposableSet } from './collections/disposable-set.js'
import type { Connection } from './connection/connection.js'
import { NOTHING, type ReplyMux } from './connection/reply-mux.js'
import { consumeDurable } from './consumers/durable-settings.js'
import type { OrderedConsumer } from './consumers/ordered-consumer.js'
import { StreamWorkSource } from './consumers/work-source.js'
import { followStream } from './journal/follow-stream.js'
import { StreamJournal } from './journal/stream-journal.js'
import type { BusContext } from './messaging/bus-context.js'
import { JetStreamApi } from './messaging/jetstream-api.js'
import { Publisher } from './messaging/publisher.js'
import { ask, QuestionService } from './messaging/request-reply.js'
import { askIfWaited, subscribeToReturns, subscribeToSteps } from './messaging/return-subscription.js'
import { ServerTime } from './server-time.js'
import { KvTable, mendOf } from './stores/kv-table.js'
import { BucketObjects, objectStoreMode } from './stores/object-store.js'
import { BucketPartStore } from './stores/part-store.js'
import type { Subjects } from './subjects/subjects.js'
import { consumerState, findMissingConsumers, inspect, listReturnConsumers, workload } from './topology/inspect.js'
import { partsBytes } from './topology/storage-plan.js'
import { partsUsage } from './topology/storage-reservation.js'
import { streamInfo, streamUsage } from './topology/stream-info.js'
import {
  ensureAgent,
  ensureBuckets,
  ensureNotifiers,
  ensureReturns,
  ensureTopology,
  removeReturns,
  setRequests,
  storesOf,
} from './topology/topology.js'
import type { AskOptions, Bus, Denied, EnsureAgent, Service, TopologyOptions } from './types/bus.js'
import type { AckDecision, ConsumeSettings, Consumption, Delivery, WorkSource } from './types/deliveries.js'
import type { ConsumerState, Consuming, Inspection, PartsUsage, PriorityLoad, StreamUsage } from './types/inspection.js'
import type { ObjectStore, Table } from './types/stores.js'
import type {
  FollowOptions,
  LiveSubscription,
  ReceivedReturn,
  StreamSubscription,
  SubscribeOptions,
  WaitedFor,
} from './types/subscriptions.js'
import type { PublishMessage, PublishResult, StoredMessage } from './wire/messages.js'

interface BusParts {
  link: Connection
  replies: ReplyMux
  subjects: Subjects
  identity: string
  timeout_ms: number
}

const FLUSH_MS = 1_000

/** Implements the bus over one NATS connection. Wiring only: each part has a file of its own. */
export class NatsBus implements Bus {
  readonly identity: string
  readonly subjects: Subjects
  readonly journal: StreamJournal
  readonly parts: BucketPartStore
  readonly closed: Promise<Error | undefined>
  readonly #link: Connection
  readonly #replies: ReplyMux
  readonly #api: JetStreamApi
  readonly #publisher: Publisher
  readonly #context: BusContext
  readonly #time: ServerTime
  readonly #opened = new DisposableSet()
  #closing: Promise<void> | undefined

  constructor({ link, replies, subjects, identity, timeout_ms }: BusParts) {
    this.identity = identity
    this.subjects = subjects
    this.#link = link
    this.#replies = replies
    this.#api = new JetStreamApi(replies, timeout_ms)
    this.#publisher = new Publisher(link, replies, timeout_ms)
    this.#context = { link, api: this.#api, publisher: this.#publisher, subjects, identity }
    this.journal = new StreamJournal(this.#context, subjects)
    this.parts = new BucketPartStore(this.#context)
    this.#time = new ServerTime({
      stream: () => streamInfo(this.#api, subjects),
      service: (timeout_ms) => this.ask({ op: 'time' }, { timeout_ms }),
    })
    this.closed = link.nc.closed().then((error) => error ?? undefined)
    link.onReconnect.add(() => this.#time.reconnected())
  }

  /** Measures the server's clock for the first time. */
  async start(): Promise<void> {
    await this.#time.keep()
  }

  get connected(): boolean {
    return this.#link.connected
  }
  get denied(): Denied | undefined {
    return this.#link.denied
  }
  get clustered(): boolean {
    return this.#link.nc.info?.cluster !== undefined
  }
  now(): number {
    return this.#time.clock.now()
  }
  get clockMeasured(): boolean {
    return this.#time.clock.measured
  }
  get clockKnown(): boolean {
    return this.#time.clock.known
  }
  get idWindow(): number | undefined {
    return this.#time.idWindow
  }
  connectedAt(): number {
    return this.#time.connectedAt()
  }
  onReconnect(listener: () => void): () => void {
    return this.#link.onReconnect.add(listener)
  }
  /** Counts the open resources of this connection, for leak checks in tests. */
  get counts(): { subscriptions: number; pending: number; open: number; listeners: number } {
    const { subscriptions, listeners } = this.#link
    return { subscriptions, pending: this.#replies.pending, open: this.#opened.size, listeners }
  }

  publish(message: PublishMessage): Promise<PublishResult> {
    return this.#publisher.publish(message)
  }

  async subscribeReturns(
    originator: string,
    prefixOrId: string,
    onHeard: (heard: ReceivedReturn) => void,
    options: SubscribeOptions = {},
  ): Promise<LiveSubscription> {
    return subscribeToReturns(this.#link, this.subjects, { subject: this.subjects.returnedTo(originator, prefixOrId), onHeard, ...options })
  }

  isWaitedFor(key: ReceivedReturn['key'], returned: number): Promise<WaitedFor> {
    return askIfWaited(this.#replies, this.subjects, { key, returned })
  }

  async subscribeIntermediateSteps(originator: string, onDetour: (key: ReceivedReturn['key']) => void): Promise<LiveSubscription> {
    return subscribeToSteps(this.#link, this.subjects, { subjects: this.subjects.detours(originator), onStep: onDetour })
  }

  async subscribeTerminations(subagent: string, onHeard: (heard: ReceivedReturn) => void): Promise<LiveSubscription> {
    return subscribeToReturns(this.#link, this.subjects, { subject: this.subjects.endings(subagent), onHeard })
  }

  work(subagent: string, priority: Priority): WorkSource {
    const onClose = (source: AsyncDisposable) => this.#opened.drop(source)
    return this.#opened.add(new StreamWorkSource({ ...this.#context, onClose }, subagent, priority))
  }

  async consume(
    durable: string,
    handler: (delivery: Delivery) => Promise<AckDecision>,
    options: ConsumeSettings = {},
  ): Promise<Consumption> {
    const consumption = consumeDurable(this.#context, { durable, handler }, options)
    return this.#opened.addUntil(consumption.closed, consumption)
  }

  async follow(
    options: FollowOptions,
    onMessage: (stored: StoredMessage, fact: Fact) => void | Promise<void>,
  ): Promise<StreamSubscription> {
    const reader = await followStream(this.#context, options, onMessage)
    return this.#opened.addUntil(reader.closed, reader)
  }

  async bounds(): Promise<{ first: number; last: number }> {
    const { state } = await this.#time.info()
    return { first: state.first_seq, last: state.last_seq }
  }

  async usage(): Promise<StreamUsage> {
    return streamUsage(await this.#time.info(), this.subjects)
  }
  workload(subagent: string): Promise<PriorityLoad[]> {
    return workload(this.#api, this.subjects, subagent)
  }
  inspect(): Promise<Inspection> {
    return inspect({ ...this.#context, skew: () => this.now() - Date.now() })
  }

  setRequests(state: 'open' | 'closed'): Promise<void> {
    return setRequests(this.#api, this.subjects, state)
  }

  async table<T>(bucket: string, schema: z.ZodType<T>): Promise<Table<T>> {
    const track = (reader: OrderedConsumer) => void this.#opened.addUntil(reader.closed, reader)
    return new KvTable({ ...this.#context, bucket: this.subjects.bucket(bucket), mend: mendOf(bucket), track }, schema)
  }

  async objects(bucket: string): Promise<ObjectStore> {
    return new BucketObjects({ ...this.#context, bucket: this.subjects.bucket(bucket), ...objectStoreMode(bucket) })
  }

  ask(question: unknown, { service = 'ask', ...options }: AskOptions = {}): Promise<unknown> {
    return ask(this.#replies, this.subjects.service(service, this.identity), { question, ...options })
  }

  async answer(handler: (asker: string, question: unknown) => Promise<unknown>, service: Service = 'ask'): Promise<Consumption> {
    const answering = new QuestionService(this.#context, service, handler)
    await this.#link.nc.flush().catch(() => undefined)
    return this.#opened.addUntil(answering.closed, answering)
  }

  hintDecided(originator: string): void {
    this.#link.send(this.subjects.decided(originator), NOTHING)
  }

  async onDecided(originator: string, listener: () => void): Promise<AsyncDisposable> {
    const subscription = this.#link.subscribe(this.subjects.decided(originator), listener)
    return {
      async [Symbol.asyncDispose]() {
        if (!subscription.isClosed()) subscription.unsubscribe()
      },
    }
  }

  async ensureTopology(options?: TopologyOptions): Promise<void> {
    await ensureTopology(this.#api, this.subjects, options)
    await this.#time.info()
    if (!this.#time.clock.measured) await this.#time.keep()
  }

  async ensureAgent(agent: string, options: EnsureAgent): Promise<void> {
    const { config } = await this.#time.info()
    const parts_bytes = options.parts_bytes ?? partsBytes(config.max_bytes)
    const parts = { parts_bytes, parts_bytes_set: options.parts_bytes !== undefined }
    await ensureAgent(this.#api, this.subjects, { ...options, ...parts, agent, replicas: config.num_replicas })
  }

  get refusing(): string | undefined {
    return this.#publisher.refusing
  }
  consumer(durable: string): Promise<ConsumerState | undefined> {
    return consumerState(this.#api, this.subjects, durable)
  }

  partsUsage(agent: string): Promise<PartsUsage | undefined> {
    return partsUsage(this.#api, this.subjects, agent)
  }

  stores(): Promise<ReadonlyMap<string, number>> {
    return storesOf(this.#api, this.subjects)
  }
  ensureBuckets(): Promise<void> {
    return ensureBuckets(this.#api, this.subjects)
  }
  ensureReturns(name: string, from: number): Promise<void> {
    return ensureReturns(this.#api, this.subjects, { name, from })
  }
  removeReturns(name: string): Promise<void> {
    return removeReturns(this.#api, this.subjects, name)
  }
  listReturnConsumers(): Promise<string[]> {
    return listReturnConsumers(this.#api, this.subjects)
  }
  findMissingConsumers(agents: readonly Consuming[]): Promise<string[]> {
    return findMissingConsumers(this.#api, this.subjects, agents)
  }
  ensureNotifiers(): Promise<void> {
    return ensureNotifiers(this.#api, this.subjects)
  }
  measureClock(): Promise<boolean> {
    return this.#time.measure()
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    this.#time.stop()
    await this.#opened.close()
    // Flushes recently published messages to the server before closing.
    this.#link.flush()
    if (this.#link.connected) await withTimeout(FLUSH_MS, this.#link.nc.flush())
    await this.#replies[Symbol.asyncDispose]()
    await this.#link.nc.close()
  }
}
