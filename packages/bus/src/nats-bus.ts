import type { Fact, Slot } from '@passover/schemas'
import type { z } from 'zod'
import { JetStreamApi } from './api.js'
import { Answering, ask } from './ask.js'
import type { Bus, EnsureAgent, Service, TopologyOptions } from './bus.js'
import type { ConsumeSettings, Consumption, Delivery, Verdict, WorkSource } from './bus-deliveries.js'
import type { Following, FollowOptions, HearAlso, Heard, Hearing, WaitedFor } from './bus-hearing.js'
import type { Outcome, Outgoing, Stored } from './bus-messages.js'
import type { Inspection, SlotLoad, StreamUsage } from './bus-standing.js'
import type { ObjectStore, Table } from './bus-stores.js'
import { ClockKeeper } from './clock-keeper.js'
import { DurableConsumption } from './consume.js'
import { settledUpTo } from './ensure.js'
import { BusReadError } from './errors.js'
import { idWindowIn, idWindowTold } from './id-window.js'
import { inspect, returnsKept, workload } from './inspect.js'
import { StreamJournal } from './journal.js'
import type { Link } from './link.js'
import { BESIDE, BucketObjects } from './objects.js'
import { BucketPartStore } from './part-store.js'
import { Publisher } from './publish.js'
import { StreamWorkSource } from './pull.js'
import { StreamReader } from './reader.js'
import { NOTHING, type Replies } from './replies.js'
import { askWaiting, hear, hearSteps } from './returned.js'
import { type StreamInfo, streamInfo, streamUsage } from './stream-info.js'
import type { Subjects } from './subjects.js'
import { KvTable } from './tables.js'
import {
  ensureAgent,
  ensureBuckets,
  ensureDecisions,
  ensureNotifier,
  ensureNotifiers,
  ensureRequests,
  ensureReturns,
  ensureTopology,
  removeReturns,
  setRequests,
  storesOf,
} from './topology.js'
import { DECISIONS, DISPATCHER, DISPATCHER_ACK_WAIT_MS, NOTIFIERS, RETURNS_ACK_WAIT_MS } from './topology-configs.js'
import { within } from './within.js'

interface BusParts {
  link: Link
  replies: Replies
  subjects: Subjects
  identity: string
  timeout_ms: number
}

const ASK_TIMEOUT_MS = 2_000
const CONCURRENCY = 64
const FLUSH_MS = 1_000
/** Objects of a dispatcher, whose connection carries admissions. */
const BESIDE_OTHERS = new Set(['snapshots'])
/** Durables that are made anew by whoever misses them, and how long they wait for an answer that is renewed. */
const RESTORED: Partial<Record<string, typeof ensureRequests>> = {
  [DISPATCHER]: ensureRequests,
  [DECISIONS]: ensureDecisions,
  ...Object.fromEntries(NOTIFIERS.map((durable) => [durable, ensureNotifier(durable)])),
}
const ACK_WAITS: Partial<Record<string, number>> = { [DISPATCHER]: DISPATCHER_ACK_WAIT_MS, [DECISIONS]: DISPATCHER_ACK_WAIT_MS }

/** The bus over one NATS connection: wiring only, each part is a file of its own. */
export class NatsBus implements Bus {
  readonly identity: string
  readonly subjects: Subjects
  readonly journal: StreamJournal
  readonly parts: BucketPartStore
  readonly closed: Promise<Error | undefined>
  readonly #link: Link
  readonly #replies: Replies
  readonly #api: JetStreamApi
  readonly #publisher: Publisher
  readonly #time: ClockKeeper
  readonly #open = new Set<AsyncDisposable>()
  #connectedAt = performance.now()
  #idWindow: number | undefined
  #closing: Promise<void> | undefined

  constructor({ link, replies, subjects, identity, timeout_ms }: BusParts) {
    this.identity = identity
    this.subjects = subjects
    this.#link = link
    this.#replies = replies
    this.#api = new JetStreamApi(replies, timeout_ms)
    this.#publisher = new Publisher(link, replies, timeout_ms)
    this.journal = new StreamJournal({ api: this.#api, publisher: this.#publisher }, subjects)
    this.parts = new BucketPartStore({ link, api: this.#api, publisher: this.#publisher, subjects })
    this.#time = new ClockKeeper({
      stream: async () => Date.parse((await this.#info()).ts),
      service: async (timeout_ms) => {
        const answer = await this.ask({ op: 'time' }, { timeout_ms })
        this.#idWindow = idWindowTold(answer) ?? this.#idWindow
        return answer
      },
    })
    this.closed = link.nc.closed().then((error) => error ?? undefined)
    link.onReconnect.add(() => {
      this.#connectedAt = performance.now()
      this.#time.clock.doubt()
      void this.#time.keep()
    })
  }

  /** First measure of the server's clock. */
  async start(): Promise<void> {
    await this.#time.keep()
  }

  get connected(): boolean {
    return this.#link.connected
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
  get idWindow(): number | undefined {
    return this.#idWindow
  }
  connectedAt(): number {
    return this.#time.clock.at(this.#connectedAt)
  }
  onReconnect(listener: () => void): () => void {
    return this.#link.onReconnect.add(listener)
  }
  /** What is open on this connection; for tests that look for leaks. */
  get counts(): { subscriptions: number; pending: number; open: number; listeners: number } {
    const { onReconnect, onDisconnect, onRefused } = this.#link
    return {
      subscriptions: this.#link.subscriptions,
      pending: this.#replies.pending,
      open: this.#open.size,
      listeners: onReconnect.size + onDisconnect.size + onRefused.size,
    }
  }

  publish(message: Outgoing): Promise<Outcome> {
    return this.#publisher.publish(message)
  }

  async hearReturns(originator: string, prefixOrId: string, onHeard: (heard: Heard) => void, also: HearAlso = {}): Promise<Hearing> {
    return hear(this.#link, this.subjects, { subject: this.subjects.returnedTo(originator, prefixOrId), onHeard, ...also })
  }

  isWaitedFor(key: Heard['key'], returned: number): Promise<WaitedFor> {
    return askWaiting(this.#replies, this.subjects, { key, returned })
  }

  async hearDetours(originator: string, onDetour: (key: Heard['key']) => void): Promise<Hearing> {
    return hearSteps(this.#link, this.subjects, { subjects: this.subjects.detours(originator), onStep: onDetour })
  }

  async hearEndings(subagent: string, onHeard: (heard: Heard) => void): Promise<Hearing> {
    return hear(this.#link, this.subjects, { subject: this.subjects.endings(subagent), onHeard })
  }

  work(subagent: string, slot: Slot): WorkSource {
    const onClose = (source: AsyncDisposable) => this.#open.delete(source)
    const source = new StreamWorkSource({ link: this.#link, api: this.#api, subjects: this.subjects, onClose }, subagent, slot)
    this.#open.add(source)
    return source
  }

  async consume(durable: string, handler: (delivery: Delivery) => Promise<Verdict>, options: ConsumeSettings = {}): Promise<Consumption> {
    const { concurrency = CONCURRENCY, onRestored } = options
    const { stream } = this.subjects
    const ensure = RESTORED[durable]
    const waits = { ...ACK_WAITS, [this.subjects.returnsConsumer(this.identity)]: RETURNS_ACK_WAIT_MS }
    const consumption = new DurableConsumption(this.#link, {
      stream,
      durable,
      concurrency,
      handler,
      ack_wait_ms: waits[durable],
      settled: () => settledUpTo(this.#api, stream, durable),
      restore: ensure && ((from) => ensure(this.#api, this.subjects, from)),
      onRestored,
    })
    return this.#track(consumption, consumption.closed)
  }

  async follow(options: FollowOptions, onMessage: (stored: Stored, fact: Fact) => void | Promise<void>): Promise<Following> {
    const { filters, from, headers_only, in_gulps } = options
    const reader = new StreamReader(
      { link: this.#link, api: this.#api },
      {
        stream: this.subjects.stream,
        filters,
        start: from ?? 1,
        headers_only,
        in_gulps,
        onMessage: (stored) => onMessage(stored, this.subjects.toFact(stored)),
        onWentBack: (last) => {
          this.#link.report(new BusReadError(`stream ${this.subjects.stream} went back to ${last}`, 'refused_by_server'))
          options.onWentBack?.(last)
        },
      },
    )
    return this.#track(await reader.open(), reader.closed)
  }

  async bounds(): Promise<{ first: number; last: number }> {
    const { state } = await this.#info()
    return { first: state.first_seq, last: state.last_seq }
  }

  async usage(): Promise<StreamUsage> {
    return streamUsage(await this.#info(), this.subjects)
  }

  workload(subagent: string): Promise<SlotLoad[]> {
    return workload(this.#api, this.subjects, subagent)
  }

  inspect(): Promise<Inspection> {
    return inspect({ link: this.#link, api: this.#api, subjects: this.subjects, skew: () => this.now() - Date.now() })
  }

  setRequests(state: 'open' | 'closed'): Promise<void> {
    return setRequests(this.#api, this.subjects, state)
  }

  async table<T>(bucket: string, schema: z.ZodType<T>): Promise<Table<T>> {
    const track = (reader: StreamReader) => void this.#track(reader, reader.closed)
    const context = { link: this.#link, api: this.#api, publisher: this.#publisher, bucket: this.subjects.bucket(bucket), track }
    return new KvTable(context, schema)
  }

  async objects(bucket: string): Promise<ObjectStore> {
    const pace = BESIDE_OTHERS.has(bucket) ? BESIDE : undefined
    return new BucketObjects({ link: this.#link, api: this.#api, publisher: this.#publisher, bucket: this.subjects.bucket(bucket), pace })
  }

  ask(question: unknown, options: { service?: Service; timeout_ms?: number } = {}): Promise<unknown> {
    const subject = this.subjects.service(options.service ?? 'ask', this.identity)
    return ask(this.#replies, subject, { question, timeout_ms: options.timeout_ms ?? ASK_TIMEOUT_MS })
  }

  async answer(handler: (asker: string, question: unknown) => Promise<unknown>, service: Service = 'ask'): Promise<Consumption> {
    const answering = new Answering({ link: this.#link, subjects: this.subjects }, service, handler)
    await this.#link.nc.flush().catch(() => undefined)
    return this.#track(answering, answering.closed)
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
    await this.#info()
    if (!this.#time.clock.measured) await this.#time.keep()
  }

  async ensureAgent(agent: string, options: EnsureAgent): Promise<void> {
    const { config } = await this.#info()
    await ensureAgent(this.#api, this.subjects, { ...options, agent, replicas: config.num_replicas })
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

  returnsKept(): Promise<string[]> {
    return returnsKept(this.#api, this.subjects)
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
    await Promise.allSettled([...this.#open].map((open) => open[Symbol.asyncDispose]()))
    // What was published just now should reach the server before we go.
    this.#link.flush()
    if (this.#link.connected) await within(FLUSH_MS, this.#link.nc.flush())
    await this.#replies[Symbol.asyncDispose]()
    await this.#link.nc.close()
  }

  async #info(): Promise<StreamInfo> {
    const info = await streamInfo(this.#api, this.subjects)
    this.#idWindow = idWindowIn(info.config)
    return info
  }

  #track<T extends AsyncDisposable>(opened: T, closed: Promise<void>): T {
    this.#open.add(opened)
    void closed.then(() => this.#open.delete(opened))
    return opened
  }
}
