import { randomBytes } from 'node:crypto'
import { type Bus, decode, encode, type Outcome, openBus, splitContext } from '@passover/bus'
import { type Clock, foldJournal, type JournalState, openControl, outputIn } from '@passover/core'
import { type DispatcherSettings, type Faults, type Running, startDispatcher } from '@passover/dispatcher'
import {
  type AgentPairOverride,
  type AgentRecord,
  type Budget,
  HEADER,
  makeId,
  makeInstance,
  type ParentProof,
  type PassError,
  type PassKey,
  type Random,
  type Slot,
  type Step,
  type WorkContext,
  type WorkControl,
  type WorkEnvelope,
} from '@passover/schemas'
import { pino } from 'pino'
import { untilTaken } from './durables.js'
import { type FixtureOptions, type NatsFixture, natsFixture } from './nats.js'
import { registerAgent } from './register.js'
import { until } from './until.js'

/** How far ahead of the server's a process's clock may be: half the longest round trip whose answer ClockKeeper believes. */
export const CLOCK_MS = 125

export const random: Random = { bytes: (length) => randomBytes(length) }
export const SILENT = pino({ level: process.env.PASSOVER_LOG_LEVEL ?? 'silent' })

/** `behind_ms`: a clock that goes wrong. */
export function clockOf(bus: Bus, behind_ms = 0): Clock {
  return {
    now: () => bus.now() - behind_ms,
    monotonic: () => performance.now(),
    after: (ms, fn) => {
      const timer = setTimeout(fn, ms).unref()
      return { [Symbol.dispose]: () => clearTimeout(timer) }
    },
  }
}

export const CONTEXT: WorkContext = {
  session_id: 's1',
  directory: '/p',
  files: [{ path: 'a.ts', content: 'let a = 1' }],
  messages: [],
  objective: 'look',
}

type Form = 'msgpack' | 'json'

/** What a test says of a request; the rest is made up. */
export interface Ask {
  from?: string
  to?: string
  form?: Form
  headers?: Record<string, string>
  id?: string
  reason?: string
  priority?: Slot
  timeout_ms?: number
  override?: AgentPairOverride
  budget?: Budget
  parent?: ParentProof
  work_context?: WorkContext
}

type AgentChange = Partial<AgentRecord> & { originates?: AgentRecord['roles']['originates']; subagent?: boolean }

export interface Terminal {
  step: Step
  journal: JournalState
  error?: PassError
  output?: unknown
  content_type: string | undefined
}

export interface WorldOptions extends FixtureOptions {
  /** One dispatcher each; [] starts none. */
  dispatchers?: DispatcherSettings[]
  faults?: Faults
  /** The stream's limit. */
  max_bytes?: number
}

/** A server with the topology, some dispatchers, and what a test needs to play every other part by hand. */
export class World implements AsyncDisposable {
  readonly nats: NatsFixture
  /** Connected as `passover`: plays agents, people and onlookers, since no permissions are enforced here. */
  readonly bus: Bus
  readonly dispatchers: Running[] = []
  readonly #buses: Bus[] = []
  readonly #instance = makeInstance(random)

  private constructor(nats: NatsFixture, bus: Bus) {
    this.nats = nats
    this.bus = bus
  }

  static async start(options: WorldOptions = {}): Promise<World> {
    const nats = await natsFixture(options)
    const bus = await openBus({ servers: nats.servers, identity: 'passover', onError: () => undefined })
    const world = new World(nats, bus)
    const { max_bytes } = options
    await bus.ensureTopology({ ...(nats.nodes.length > 1 && { replicas: 3 }), ...(max_bytes !== undefined && { max_bytes }) })
    for (const settings of options.dispatchers ?? [{}]) await world.dispatcher(settings, options.faults ? { faults: options.faults } : {})
    return world
  }

  /** Starts a dispatcher on a connection of its own. */
  async dispatcher(settings: DispatcherSettings = {}, how: { faults?: Faults; behind_ms?: number } = {}): Promise<Running> {
    const { faults, behind_ms } = how
    const bus = await openBus({ servers: this.nats.servers, identity: 'passover', onError: () => undefined })
    this.#buses.push(bus)
    const running = await startDispatcher({ bus, clock: clockOf(bus, behind_ms), random, log: SILENT, ...(faults && { faults }) }, settings)
    this.dispatchers.push(running)
    return running
  }

  /** Registers an agent as a person does, and makes what it needs. */
  async agent(name: string, change: AgentChange = {}): Promise<void> {
    await this.agentRecord(name, change)
    await this.bus.ensureAgent(name, { subagent: change.subagent ?? true, max_attempts: 3, lease_ms: 5_000 })
  }

  /** Its event and record alone. */
  async agentRecord(name: string, change: AgentChange = {}): Promise<void> {
    const { originates = 'within_a_pass', subagent = true, ...rest } = change
    const record: AgentRecord = { name, roles: { originates, subagent }, registered_by: 'ops', updated_at: this.bus.now(), ...rest }
    await registerAgent(this.bus, record)
  }

  id(at = this.bus.now()): string {
    return makeId(this.#instance, at, random)
  }

  request(ask: Ask = {}): { key: PassKey; subject: string; data: Uint8Array; headers: Record<string, string> } {
    const { from = 'alice', to = 'audit', form = 'msgpack', headers = {}, work_context = CONTEXT, ...given } = ask
    const control = { id: this.id(), reason: 'review', return_required: true, ...given, originating_agent_id: from, subagent_id: to }
    const key = { originator: from, subagent: to, id: control.id }
    const subject = this.bus.subjects.request(to, from)
    if (form === 'json') return { key, subject, data: encode({ ...control, work_context }, 'json'), headers }
    const body = { v: 1, request: control, parts: splitContext(work_context).parts, session_id: work_context.session_id }
    const own = { [HEADER.id]: control.id, ...(given.timeout_ms !== undefined && { [HEADER.timeout]: String(given.timeout_ms) }) }
    return { key, subject, data: encode(body, 'msgpack'), headers: { ...own, ...headers } }
  }

  /** Publishes a request as an agent does, and gives its pass. */
  async ask(ask: Ask = {}): Promise<PassKey> {
    const { key, ...message } = this.request(ask)
    sequenceOf(await this.bus.publish(message))
    return key
  }

  /** Publishes any bytes as a request; gives the key under which they are answered when they are malformed. */
  async send(
    data: Uint8Array,
    options: { from?: string; to?: string; headers?: Record<string, string> } = {},
  ): Promise<PassKey & { sequence: number }> {
    const { from = 'alice', to = 'audit', headers = {} } = options
    const sequence = sequenceOf(await this.bus.publish({ subject: this.bus.subjects.request(to, from), data, headers }))
    return { originator: from, subagent: to, id: this.bus.subjects.badId(sequence), sequence }
  }

  async journal(key: PassKey, id_window_ms = 3_600_000): Promise<JournalState> {
    return foldJournal(await this.bus.journal.read(key), { id_window_ms }).journal
  }

  async state(key: PassKey, state: JournalState['state'], deadline_ms = 30_000): Promise<JournalState> {
    return until(
      async () => {
        const journal = await this.journal(key)
        return journal.state === state ? journal : undefined
      },
      { what: `${key.id} is ${state}`, deadline_ms },
    )
  }

  /** Waits until it was admitted, whatever became of it since: a short deadline may be over before anybody looks. */
  async admitted(key: PassKey): Promise<void> {
    await until(async () => (await this.bus.journal.read(key)).some(({ kind }) => kind === 'work'), { what: `${key.id} is admitted` })
  }

  async work(key: PassKey): Promise<WorkControl> {
    const journal = await this.state(key, 'open')
    return this.control(journal.state === 'open' ? journal.work.sequence : 0)
  }

  async control(sequence: number): Promise<WorkControl> {
    const stored = await this.bus.journal.message(sequence)
    const step = stored && this.bus.subjects.toFact(stored)
    const body = (await this.body(sequence)) as WorkEnvelope
    const control = step?.type === 'step' ? openControl(body.control, step) : undefined
    if (!control) throw new Error(`no control at ${sequence}`)
    return control
  }

  async body(sequence: number): Promise<unknown> {
    const stored = await this.bus.journal.message(sequence)
    const decoded = decode(stored?.data ?? new Uint8Array(0), stored?.headers.get(HEADER.contentType))
    return decoded.ok ? decoded.value : undefined
  }

  /** Waits for the terminal return of a pass. */
  async end(key: PassKey, deadline_ms = 30_000): Promise<Terminal> {
    const journal = await this.state(key, 'done', deadline_ms)
    if (journal.state !== 'done') throw new Error('not done')
    const stored = await this.bus.journal.message(journal.return.sequence)
    const body = (await this.body(journal.return.sequence)) as { error?: PassError; brief?: unknown }
    const said = 'brief' in body ? { output: outputIn(body, key) } : body
    return { step: journal.return, journal, ...said, content_type: stored?.headers.get(HEADER.contentType) }
  }

  /** Publishes a step as a worker does. */
  async step(
    kind: 'fence' | 'return',
    key: PassKey,
    how: { attempt: number; guard?: number; headers?: Record<string, string>; bytes?: number },
  ): Promise<Outcome> {
    const { subjects } = this.bus
    return this.bus.publish({
      subject: subjects.step(kind, key, key.subagent),
      headers: { [HEADER.attempt]: String(how.attempt), [HEADER.nonce]: `n${Math.random()}`, ...how.headers },
      data: encode(kind === 'return' ? { v: 1, output: { status: 'completed', output: 'x'.repeat(how.bytes ?? 0) } } : { v: 1 }, 'msgpack'),
      ...(how.guard !== undefined && { guard: { subject: subjects.journal(key), sequence: how.guard } }),
    })
  }

  async decide(key: PassKey, how: { person?: string; verdict?: 'approve' | 'deny'; digest: string; reason?: string }): Promise<number> {
    const { person = 'pat', verdict = 'approve', digest, reason } = how
    const body = { v: 1, verdict, digest, ...(reason !== undefined && { reason }) }
    const subject = this.bus.subjects.decision(key, 'dispatch', person)
    return sequenceOf(await this.bus.publish({ subject, data: encode(body, 'msgpack') }))
  }

  async cancel(key: PassKey, sender = key.originator): Promise<number> {
    return sequenceOf(
      await this.bus.publish({ subject: this.bus.subjects.event(key, 'cancel', sender), data: encode({ v: 1 }, 'msgpack') }),
    )
  }

  /** Waits until every request and decision is acknowledged. */
  async untilAcknowledged(deadline_ms = 60_000): Promise<void> {
    await untilTaken(this.nats.servers, deadline_ms)
  }

  slot(slot: Slot, to = 'audit') {
    return this.bus.work(to, slot)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const running of this.dispatchers) await running.drain(2_000)
    for (const bus of this.#buses) await bus[Symbol.asyncDispose]()
    await this.bus[Symbol.asyncDispose]()
    await this.nats[Symbol.asyncDispose]()
  }
}

export function sequenceOf(outcome: Outcome): number {
  if (outcome.kind !== 'stored') throw new Error(`not stored: ${JSON.stringify(outcome)}`)
  return outcome.sequence
}
