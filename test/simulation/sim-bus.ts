import {
  API_ERROR,
  type ApiReply,
  type Bus,
  BusReadError,
  ClockKeeper,
  type Consumption,
  type Delivery,
  type EnsureAgent,
  encodeHeaders,
  type Following,
  type FollowOptions,
  type Heard,
  type Hearing,
  type Inspection,
  type ObjectStore,
  type Outcome,
  type Outgoing,
  type PartStore,
  type Service,
  type SlotLoad,
  type Stored,
  StreamJournal,
  type StreamUsage,
  type Subjects,
  type Table,
  type Timing,
  type Verdict,
  type WorkSource,
} from '@passover/bus'
import { type Fact, SLOTS, type Slot } from '@passover/schemas'
import type { z } from 'zod'
import { SimConsumption, SimWorkSource } from './sim-deliveries.js'
import { SimFollowing } from './sim-following.js'
import { type Answer, type Line, TIMEOUT_MS } from './sim-line.js'
import type { SimServer } from './sim-server.js'
import { inlineParts, SimObjects, SimTableClient } from './sim-stores.js'
import { EPOCH, type Process } from './world.js'

const ASK_MS = 2_000

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
  readonly #time: ClockKeeper
  readonly #ears = new Set<() => void>()
  #connected_at: number
  #close: () => void = () => undefined

  constructor(server: SimServer, line: Line, identity: string) {
    this.server = server
    this.line = line
    this.identity = identity
    this.subjects = server.subjects
    this.timing = timingOf(line.process)
    const publisher = {
      publish: (message: Outgoing) => this.publish(message),
      send: (message: Outgoing, settle: (outcome: Outcome) => void) => this.#send(message, settle),
    }
    this.journal = new StreamJournal({ api: { call: this.#call, direct: this.#direct }, publisher }, this.subjects, this.timing)
    const stream = async () => this.must(await line.request(() => server.world.now, TIMEOUT_MS), 'time')
    this.#time = new ClockKeeper({ stream, service: (timeout_ms) => this.ask({ op: 'time' }, { timeout_ms }) }, this.timing)
    this.#connected_at = this.timing.monotonic()
    this.closed = new Promise((resolve) => {
      this.#close = () => resolve(undefined)
    })
    server.connect(line)
    line.onReconnect.add(() => {
      this.#connected_at = this.timing.monotonic()
      this.#time.clock.doubt()
      for (const listen of this.#ears) listen()
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

  publish(message: Outgoing): Promise<Outcome> {
    return new Promise((resolve) => this.#send(message, resolve))
  }

  #send({ subject, headers, data = new Uint8Array(0), guard }: Outgoing, settle: (outcome: Outcome) => void): void {
    const expected = guard ? guardLines(subject, guard) : ''
    const sent = { subject, block: encodeHeaders(headers, expected), data, guard, sent_at: this.server.world.now }
    const ask = (): Outcome | undefined => this.server.publish(sent, this.identity)
    const send = () => this.line.requestThen(ask, TIMEOUT_MS, (answer) => settle(outcomeOf(answer, this.clustered)))
    const { store_ms = 0 } = this.line.weather
    if (store_ms > 0) this.timing.after(this.line.process.dice.between(0, store_ms), send)
    else send()
  }

  readonly #call = async <T>(call: string, body?: unknown, timeout_ms = TIMEOUT_MS): Promise<ApiReply<T>> => {
    const answer = await this.line.request(() => this.#api(call, body as Query), Math.min(timeout_ms, TIMEOUT_MS))
    return this.must(answer, call) as ApiReply<T>
  }

  readonly #direct = async (_stream: string, subject: string, timeout_ms = TIMEOUT_MS): Promise<Stored | undefined> => {
    const { stream, world } = this.server
    const lag = this.clustered && world.dice.hits(this.line.weather.lag) ? world.dice.whole(1, this.line.weather.lag_by ?? 12) : 0
    const ask = () => ({ stored: stream.lastOf(subject, lag > 0 ? stream.changes - lag : undefined) })
    return this.must(await this.line.request(ask, Math.min(timeout_ms, TIMEOUT_MS)), subject).stored
  }

  /** What the leader's API says; only what the journal asks. */
  #api(call: string, query: Query): ApiReply<unknown> {
    const { stream } = this.server
    if (call.startsWith('STREAM.MSG.DELETE')) {
      if (this.server.delete(query.seq ?? 0)) return { ok: true, value: { success: true } }
      return { ok: false, err_code: 10043, code: 400, description: 'no message found' }
    }
    const found =
      query.last_by_subj !== undefined
        ? stream.lastOf(query.last_by_subj)
        : query.next_by_subj !== undefined
          ? stream.nextOf([query.next_by_subj], query.seq ?? 1)
          : stream.get(query.seq ?? 0)
    if (!found) return { ok: false, err_code: API_ERROR.messageNotFound, code: 404, description: 'no message found' }
    const { subject, sequence, headers, data, time } = found
    const hdrs = Buffer.from(headers.text()).toString('base64')
    const at = new Date(time).toISOString()
    return { ok: true, value: { message: { subject, seq: sequence, hdrs, data: Buffer.from(data).toString('base64'), time: at } } }
  }

  /** The answer, or what the real bus throws where there is none. */
  must<T>(answer: Answer<T>, what: string): T {
    if ('none' in answer) throw new BusReadError(`${what}: ${answer.none}`, answer.none)
    return answer.value
  }

  hearReturns(originator: string, prefixOrId: string, onHeard: (heard: Heard) => void): Promise<Hearing> {
    const filter = this.subjects.returnedTo(originator, prefixOrId)
    return this.#listen([filter], ({ heard }) => heard && onHeard(heard))
  }
  hearDetours(originator: string, onDetour: (key: Heard['key']) => void): Promise<Hearing> {
    return this.#listen(this.subjects.detours(originator), ({ subject }) => {
      const parsed = this.subjects.parse(subject)
      if (parsed.kind === 'step') onDetour(parsed.key)
    })
  }
  /** No agent asks for delivery here: nobody is asked. */
  async isWaitedFor(): Promise<'nobody'> {
    return 'nobody'
  }
  hearEndings(subagent: string, onHeard: (heard: Heard) => void): Promise<Hearing> {
    return this.#listen([this.subjects.endings(subagent)], ({ heard }) => heard && onHeard(heard))
  }

  async #listen(filters: string[], hear: (message: { subject: string; heard?: Heard }) => void): Promise<Hearing> {
    const { server, line } = this
    const ears = filters.map((filter) => ({ filter, line, hear }))
    let closed = false
    const listen = () =>
      line.up(() => {
        if (!closed && line.connected) for (const ear of ears) server.ears.add(ear)
      }, 'arrives')
    this.#ears.add(listen)
    listen()
    // The round trip after which the server has it; a broken connection makes it anew by itself.
    await line.request(() => true, TIMEOUT_MS)
    return {
      get closed() {
        return closed
      },
      [Symbol.asyncDispose]: async () => {
        closed = true
        this.#ears.delete(listen)
        for (const ear of ears) server.ears.delete(ear)
      },
    }
  }

  work(subagent: string, slot: Slot): WorkSource {
    return new SimWorkSource(this, this.subjects.workConsumer(subagent, slot), slot)
  }
  async consume(
    durable: string,
    handler: (delivery: Delivery) => Promise<Verdict>,
    options: { concurrency?: number | (() => number) } = {},
  ): Promise<Consumption> {
    return new SimConsumption(this, { durable, handler, concurrency: options.concurrency ?? 64 })
  }
  async follow(options: FollowOptions, onMessage: (stored: Stored, fact: Fact) => void | Promise<void>): Promise<Following> {
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
  async workload(subagent: string): Promise<SlotLoad[]> {
    const load = (slot: Slot): SlotLoad[] => {
      const consumer = this.server.consumers.get(this.subjects.workConsumer(subagent, slot))
      return consumer ? [{ slot, idle: consumer.waiting, queued: 0, running: consumer.pending, created: consumer.created }] : []
    }
    return this.must(await this.line.request(() => SLOTS.flatMap(load), TIMEOUT_MS), 'workload')
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

  async ask(question: unknown, options: { service?: Service; timeout_ms?: number } = {}): Promise<unknown> {
    const subject = this.subjects.service(options.service ?? 'ask', this.identity)
    const answer = await new Promise<unknown>((resolve) => {
      this.line.process.after(options.timeout_ms ?? ASK_MS, () => resolve(undefined))
      this.line.up(() => {
        const reply = (value: unknown) => this.line.down(() => resolve(value), 'core')
        if (!this.server.ask(subject, structuredClone(question), reply)) reply(undefined)
      })
    })
    return answer
  }
  async answer(handler: (asker: string, question: unknown) => Promise<unknown>, service: Service = 'ask'): Promise<Consumption> {
    const hear = ({ subject, data, reply }: { subject: string; data?: unknown; reply?: (value: unknown) => void }) => {
      const parsed = this.subjects.parse(subject)
      const asker = parsed.kind === 'ask' ? parsed.asker : parsed.kind === 'register' ? parsed.agent : undefined
      if (asker === undefined || !reply) return
      handler(asker, data).then(
        (value) => value !== undefined && this.line.up(() => reply(structuredClone(value))),
        () => undefined,
      )
    }
    const { server, line } = this
    const ear = { filter: this.subjects.service(service), line, queue: 'passover', hear }
    const listen = () => line.up(() => line.connected && server.ears.add(ear), 'arrives')
    this.#ears.add(listen)
    listen()
    await line.request(() => true, TIMEOUT_MS)
    const drain = async () => {
      this.#ears.delete(listen)
      server.ears.delete(ear)
    }
    return { drain, closed: new Promise(() => undefined), [Symbol.asyncDispose]: drain }
  }

  hintDecided(originator: string): void {
    this.line.up(() => this.server.hint(this.subjects.decided(originator)))
  }
  async onDecided(originator: string, listener: () => void): Promise<AsyncDisposable> {
    return this.#listen([this.subjects.decided(originator)], () => listener())
  }

  async ensureTopology(): Promise<void> {
    await this.#make(() => this.server.ensureDispatchers())
  }
  async ensureNotifiers(): Promise<void> {}
  async ensureReturns(): Promise<void> {}
  async removeReturns(): Promise<void> {}
  async returnsKept(): Promise<string[]> {
    return []
  }
  /** Of so few agents each is looked at. */
  async lackConsumers(): Promise<string[]> {
    return []
  }
  /** No store is ever lost here. */
  async stores(): Promise<ReadonlyMap<string, number>> {
    return this.must(await this.line.request(() => new Map([['stream', EPOCH]]), TIMEOUT_MS), 'stores')
  }
  async ensureBuckets(): Promise<void> {}
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

interface Query {
  seq?: number
  next_by_subj?: string
  last_by_subj?: string
}

function guardLines(subject: string, guard: { subject: string; sequence: number }): string {
  const expected = `Nats-Expected-Last-Subject-Sequence: ${guard.sequence}\r\n`
  return guard.subject === subject ? expected : `${expected}Nats-Expected-Last-Subject-Sequence-Subject: ${guard.subject}\r\n`
}

/** In a cluster a refusal does not name what was stored instead. */
function outcomeOf(answer: Answer<Outcome>, clustered: boolean): Outcome {
  if ('none' in answer) return { kind: 'unknown', description: answer.none }
  return clustered && answer.value.kind === 'lost' ? { kind: 'lost' } : answer.value
}

function timingOf(process: Process): Timing {
  return {
    wall: () => EPOCH + process.world.time + process.skew,
    monotonic: () => process.world.time,
    after: (ms, fn) => process.after(ms, fn),
    chance: () => process.dice.next(),
  }
}
