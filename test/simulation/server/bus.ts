import {
  type AckDecision,
  type ApiReply,
  type Bus,
  BusReadError,
  ClockSync,
  type Consumption,
  type Delivery,
  type EnsureAgent,
  type FollowOptions,
  type Inspection,
  type LiveSubscription,
  type ObjectStore,
  type PartStore,
  type PriorityLoad,
  type PublishMessage,
  type PublishResult,
  type ReceivedReturn,
  type Service,
  type StoredMessage,
  StreamJournal,
  type StreamSubscription,
  type StreamUsage,
  type Subjects,
  type Table,
  type Timing,
  type WorkSource,
} from '@passover/bus'
import { type Fact, PRIORITIES, type Priority } from '@passover/schemas'
import type { z } from 'zod'
import { EPOCH, timingOf } from '../world.js'
import { type ApiQuery, leaderSays } from './api-requests.js'
import { SimEars } from './core-subscriptions.js'
import { SimConsumption, SimWorkSource } from './deliveries.js'
import { SimFollowing } from './following.js'
import { type Answer, type Line, TIMEOUT_MS } from './network-line.js'
import { SimPublisher } from './publisher.js'
import type { SimServer } from './server.js'
import { answerService, askService } from './service-questions.js'
import { inlineParts, SimObjects, SimTableClient } from './stores.js'

/** Identities that may read the stream's time. All others are agents, which ask the audit. */
const READS_STREAM = new Set(['passover', 'pat'])

/** A bus over a simulated server. What packages/bus decides (journals, clocks) is its own code here too. */
export class SimBus implements Bus {
  readonly identity: string
  readonly subjects: Subjects
  readonly journal: StreamJournal
  readonly parts: PartStore = inlineParts
  readonly closed: Promise<Error | undefined>
  readonly server: SimServer
  readonly line: Line
  readonly timing: Timing
  readonly #time: ClockSync
  readonly #publisher: SimPublisher
  readonly #ears: SimEars
  #connected_at: number
  #close: () => void = () => undefined

  constructor(server: SimServer, line: Line, identity: string) {
    this.server = server
    this.line = line
    this.identity = identity
    this.subjects = server.subjects
    this.timing = timingOf(line.process)
    this.#publisher = new SimPublisher(server, line, identity)
    this.#ears = new SimEars(server, line)
    const api = { call: this.#call, direct: this.#direct }
    this.journal = new StreamJournal({ api, publisher: this.#publisher }, this.subjects, this.timing)
    const stream = async () => {
      if (!READS_STREAM.has(identity)) throw new BusReadError('time: permission', 'permission')
      return this.must(await line.request(() => server.world.now, TIMEOUT_MS), 'time')
    }
    this.#time = new ClockSync({ stream, service: (timeout_ms) => this.ask({ op: 'time' }, { timeout_ms }) }, this.timing)
    this.#connected_at = this.timing.monotonic()
    this.closed = new Promise((resolve) => {
      this.#close = () => resolve(undefined)
    })
    server.connect(line)
    line.onReconnect.add(() => {
      this.#connected_at = this.timing.monotonic()
      this.#time.clock.doubt()
      this.#ears.again()
      void this.#time.keep()
    })
  }

  static async open(server: SimServer, line: Line, identity: string): Promise<SimBus> {
    const bus = new SimBus(server, line, identity)
    await bus.#time.keep()
    return bus
  }

  now(): number {
    return this.#time.clock.now()
  }
  measureClock(): Promise<boolean> {
    return this.#time.measure()
  }
  /** Everybody is handed the plan's. */
  get idWindow(): undefined {
    return undefined
  }
  get clockMeasured(): boolean {
    return this.#time.clock.measured
  }
  get clockKnown(): boolean {
    return this.#time.clock.known
  }
  connectedAt(): number {
    return this.#time.clock.at(this.#connected_at)
  }
  get clustered(): boolean {
    return this.line.weather.clustered
  }
  get connected(): boolean {
    return this.line.connected
  }
  onReconnect(listener: () => void): () => void {
    this.line.onReconnect.add(listener)
    return () => this.line.onReconnect.delete(listener)
  }

  publish(message: PublishMessage): Promise<PublishResult> {
    return this.#publisher.publish(message)
  }

  readonly #call = async <T>(call: string, body?: unknown, timeout_ms = TIMEOUT_MS): Promise<ApiReply<T>> => {
    const answer = await this.line.request(() => leaderSays(this.server, call, body as ApiQuery), Math.min(timeout_ms, TIMEOUT_MS))
    return this.must(answer, call) as ApiReply<T>
  }

  readonly #direct = async (_stream: string, subject: string, timeout_ms = TIMEOUT_MS): Promise<StoredMessage | undefined> => {
    const { stream, world } = this.server
    const lag = this.clustered && world.dice.hits(this.line.weather.lag) ? world.dice.whole(1, this.line.weather.lag_by ?? 12) : 0
    const ask = () => ({ stored: stream.lastOf(subject, lag > 0 ? stream.changes - lag : undefined) })
    return this.must(await this.line.request(ask, Math.min(timeout_ms, TIMEOUT_MS)), subject).stored
  }

  /** The answer, or what the real bus throws where there is none. */
  must<T>(answer: Answer<T>, what: string): T {
    if ('none' in answer) throw new BusReadError(`${what}: ${answer.none}`, answer.none)
    return answer.value
  }

  subscribeReturns(
    originator: string,
    prefixOrId: string,
    onHeard: (heard: ReceivedReturn) => void,
    { onSuspect }: { onSuspect?: (key: ReceivedReturn['key']) => void } = {},
  ): Promise<LiveSubscription> {
    return this.#ears.open([{ filter: this.subjects.returnedTo(originator, prefixOrId), hear: this.#believed(onHeard, onSuspect) }])
  }
  subscribeIntermediateSteps(originator: string, onDetour: (key: ReceivedReturn['key']) => void): Promise<LiveSubscription> {
    const hear = ({ subject }: { subject: string }) => {
      const parsed = this.subjects.parse(subject)
      if (parsed.kind === 'step') onDetour(parsed.key)
    }
    return this.#ears.open(this.subjects.detours(originator).map((filter) => ({ filter, hear })))
  }
  /** No agent asks for delivery here: nobody is asked. */
  async isWaitedFor(): Promise<'nobody'> {
    return 'nobody'
  }
  subscribeTerminations(subagent: string, onHeard: (heard: ReceivedReturn) => void): Promise<LiveSubscription> {
    return this.#ears.open([{ filter: this.subjects.endings(subagent), hear: this.#believed(onHeard) }])
  }
  #believed(onHeard: (heard: ReceivedReturn) => void, onSuspect?: (key: ReceivedReturn['key']) => void) {
    return ({ heard }: { heard?: ReceivedReturn }) => {
      if (!heard) return
      if (this.subjects.isTrusted(heard.stored)) onHeard(heard)
      else onSuspect?.(heard.key)
    }
  }

  work(subagent: string, priority: Priority): WorkSource {
    return new SimWorkSource(this, this.subjects.workConsumer(subagent, priority), priority)
  }
  async consume(
    durable: string,
    handler: (delivery: Delivery) => Promise<AckDecision>,
    options: { concurrency?: number | (() => number) } = {},
  ): Promise<Consumption> {
    return new SimConsumption(this, { durable, handler, concurrency: options.concurrency ?? 64 })
  }
  async follow(
    options: FollowOptions,
    onMessage: (stored: StoredMessage, fact: Fact) => void | Promise<void>,
  ): Promise<StreamSubscription> {
    return await SimFollowing.open(this, options, onMessage)
  }

  async bounds(): Promise<{ first: number; last: number }> {
    const { stream } = this.server
    return this.must(await this.line.request(() => ({ first: stream.first, last: stream.last }), TIMEOUT_MS), 'bounds')
  }
  async usage(): Promise<StreamUsage> {
    const ask = () => ({ messages: this.server.stream.last, bytes: 0, requests: this.server.requests })
    return this.must(await this.line.request(ask, TIMEOUT_MS), 'usage')
  }
  async workload(subagent: string): Promise<PriorityLoad[]> {
    const load = (priority: Priority): PriorityLoad[] => {
      const consumer = this.server.consumers.get(this.subjects.workConsumer(subagent, priority))
      if (!consumer) return []
      const { waiting: idle, pending: running, delivered, created } = consumer
      return [{ priority, idle, queued: 0, running, delivered, created }]
    }
    return this.must(await this.line.request(() => PRIORITIES.flatMap(load), TIMEOUT_MS), 'workload')
  }
  inspect(): Promise<Inspection> {
    return Promise.reject(new Error('the simulation has no doctor'))
  }
  async setRequests(state: 'open' | 'closed'): Promise<void> {
    const ask = () => {
      this.server.requests = state
      return true
    }
    this.must(await this.line.request(ask, TIMEOUT_MS), 'requests')
  }
  async table<T>(bucket: string, schema: z.ZodType<T>): Promise<Table<T>> {
    return new SimTableClient(this, this.subjects.bucket(bucket), schema)
  }
  async objects(bucket: string): Promise<ObjectStore> {
    return new SimObjects(this, this.subjects.bucket(bucket))
  }

  ask(question: unknown, options: { service?: Service; timeout_ms?: number } = {}): Promise<unknown> {
    const subject = this.subjects.service(options.service ?? 'ask', this.identity)
    return askService(this, { subject, question, timeout_ms: options.timeout_ms })
  }
  answer(handler: (asker: string, question: unknown) => Promise<unknown>, service: Service = 'ask'): Promise<Consumption> {
    return answerService(this, this.#ears, { filter: this.subjects.service(service), handler })
  }

  hintDecided(originator: string): void {
    this.line.up(() => this.server.hint(this.subjects.decided(originator)))
  }
  async onDecided(originator: string, listener: () => void): Promise<AsyncDisposable> {
    return this.#ears.open([{ filter: this.subjects.decided(originator), hear: () => listener() }])
  }

  async ensureTopology(): Promise<void> {
    await this.#make(() => this.server.ensureDispatchers())
  }
  async ensureNotifiers(): Promise<void> {}
  async ensureReturns(): Promise<void> {}
  async removeReturns(): Promise<void> {}
  async listReturnConsumers(): Promise<string[]> {
    return []
  }
  /** Of so few agents each is looked at. */
  async findMissingConsumers(): Promise<string[]> {
    return []
  }
  /** No store is ever lost here. */
  async stores(): Promise<ReadonlyMap<string, number>> {
    return this.must(await this.line.request(() => new Map([['stream', EPOCH]]), TIMEOUT_MS), 'stores')
  }
  async ensureBuckets(): Promise<void> {}
  async partsUsage(): Promise<undefined> {}
  readonly refusing = undefined
  async consumer(): Promise<undefined> {}
  async ensureAgent(agent: string, options: EnsureAgent): Promise<void> {
    await this.#make(() => options.subagent && this.server.ensureWork(agent, options))
  }
  async #make(make: () => unknown): Promise<void> {
    const ask = () => {
      make()
      return true
    }
    this.must(await this.line.request(ask, TIMEOUT_MS), 'topology')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#time.stop()
    this.line.closed = true
    this.line.cut()
    this.#close()
  }
}
