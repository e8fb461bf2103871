import type { Fact, PassKey, Priority } from '@passover/schemas'
import type { z } from 'zod'
import type { Subjects } from '../subjects/subjects.js'
import type { PublishMessage, PublishResult, StoredMessage } from '../wire/messages.js'
import type { AckDecision, ConsumeSettings, Consumption, Delivery, WorkSource } from './deliveries.js'
import type { NoReply } from './errors.js'
import type { ConsumerState, Consuming, Inspection, PartsUsage, PriorityLoad, StreamUsage } from './inspection.js'
import type { Journal } from './journal.js'
import type { ObjectStore, PartStore, Table } from './stores.js'
import type { FollowOptions, LiveSubscription, ReceivedReturn, StreamSubscription, SubscribeOptions, WaitedFor } from './subscriptions.js'

/** Reason why a server refuses a connection: its credentials were revoked, have expired, or are refused for a reason that it does not state. */
export type Denied = 'revoked' | 'expired' | 'refused'

/** All NATS operations of a Passover process, over one connection. */
export interface Bus extends AsyncDisposable {
  /** Identity of this connection: an agent, a person, or `passover` for services. */
  readonly identity: string
  readonly subjects: Subjects
  /** Server time in whole ms: the last measurement plus the monotonic time since then. The local clock before the first measurement. */
  now(): number
  /**
   * Measures the server's time. Resolves to false if no response came quickly enough. Runs automatically on connect, on reconnect and at least once
   * a minute.
   */
  measureClock(): Promise<boolean>
  /** True if `now()` and `connectedAt()` are based on a measurement since the last (re)connect. Do not rely on them otherwise. */
  readonly clockMeasured: boolean
  /** True if the server's time was measured at least once on this connection. Until then `now()` is the local clock, which may be wrong by hours. */
  readonly clockKnown: boolean
  /** Server time of the last (re)connect, ms. */
  connectedAt(): number
  /**
   * Id window in ms as configured on the stream. `undefined` if the stream has none (then DEFAULT_ID_WINDOW_MS applies) or it is not known yet. Known
   * after the first query of the stream, or, for clients without permission to query it, after an answer of the audit service.
   */
  readonly idWindow: number | undefined
  /** True if the server is part of a cluster, where core messages may be lost unnoticed. */
  readonly clustered: boolean
  onReconnect(listener: () => void): () => void
  readonly connected: boolean
  /** Reason why the server refuses to let this connection in again, or `undefined` if it does not or is not reachable. */
  readonly denied?: Denied | undefined
  /** Settles when the connection is closed for good. */
  readonly closed: Promise<Error | undefined>

  publish(message: PublishMessage): Promise<PublishResult>
  readonly journal: Journal
  /** Subscribes to `returned.<originator>.<prefix>.>` or, with a whole id, `returned.<originator>.<prefix>.<rest>.>`. */
  subscribeReturns(
    originator: string,
    prefixOrId: string,
    onHeard: (heard: ReceivedReturn) => void,
    options?: SubscribeOptions,
  ): Promise<LiveSubscription>
  /** Asks the process that subscribes to the return of this pass, stored at sequence `returned`, whether it still has to handle it. */
  isWaitedFor(key: PassKey, returned: number): Promise<WaitedFor>
  /**
   * Calls back when a held step or a fence is published for a pass of `originator`, stored or not: such a pass does not go straight from its work to
   * its return. Only a hint, since any client may cause it.
   */
  subscribeIntermediateSteps(originator: string, onDetour: (key: PassKey) => void): Promise<LiveSubscription>
  /** Subscribes to system returns for passes that `subagent` works on: `returned.*.*.*.<subagent>.passover`. */
  subscribeTerminations(subagent: string, onHeard: (heard: ReceivedReturn) => void): Promise<LiveSubscription>
  work(subagent: string, priority: Priority): WorkSource
  /** Processes a durable consumer's deliveries, at most `concurrency` at a time. */
  consume(durable: string, handler: (delivery: Delivery) => Promise<AckDecision>, options?: ConsumeSettings): Promise<Consumption>
  follow(options: FollowOptions, onMessage: (stored: StoredMessage, fact: Fact) => void | Promise<void>): Promise<StreamSubscription>
  /** Returns the sequences of the first and the last message in the stream. */
  bounds(): Promise<{ first: number; last: number }>
  /** Returns the fill level of the stream (`max_bytes` is `undefined` if it has no limit of its own), and whether it accepts requests. */
  usage(): Promise<StreamUsage>
  /** Returns the state of a subagent's three work consumers, [] if it has none. */
  workload(subagent: string): Promise<PriorityLoad[]>
  /** Collects the data for `passover doctor`. Missing resources are reported, not thrown. */
  inspect(): Promise<Inspection>
  /** Reason why the server refuses every write, as of its last response to this process; `undefined` if it accepts writes. */
  readonly refusing: string | undefined
  /** Returns the state of a durable consumer, or `undefined` if it does not exist. */
  consumer(durable: string): Promise<ConsumerState | undefined>
  /** Backpressure: removes `request.>` from the stream's subjects at the high-water mark (`closed`), or adds it again (`open`). */
  setRequests(state: 'open' | 'closed'): Promise<void>
  readonly parts: PartStore
  table<T>(bucket: string, schema: z.ZodType<T>): Promise<Table<T>>
  objects(bucket: string): Promise<ObjectStore>
  /** Sends a core request to `<service>.<identity>` (default service `ask`). Resolves to `undefined` without an answer in time (default 2 s). */
  ask(question: unknown, options?: AskOptions): Promise<unknown>
  /** Answers requests to `<service>.*`. `asker` is the subject's last token, which the permissions enforce. Replicas share the load. */
  answer(handler: (asker: string, question: unknown) => Promise<unknown>, service?: Service): Promise<Consumption>
  /** Publishes a core message on `decided.<originator>`. Only a hint: it may be lost. */
  hintDecided(originator: string): void
  onDecided(originator: string, listener: () => void): Promise<AsyncDisposable>
  /**
   * Creates stream, republish, consumers and buckets, or updates them. Throws TopologyError if someone else configured one differently, and
   * StreamLost if the stream is gone while resources derived from it remain.
   */
  ensureTopology(options?: TopologyOptions): Promise<void>
  /**
   * Returns the main stream (`stream`) and the existing buckets (object buckets as `objects <name>`), each with the server time of its creation. A
   * later time means that it was re-created since it was last read.
   */
  stores(): Promise<ReadonlyMap<string, number>>
  /** Creates missing buckets, but never the stream (decision 55). */
  ensureBuckets(): Promise<void>
  /** Creates the durable consumer of an agent with durable returns: it delivers returns to that agent from sequence `from` on. */
  ensureReturns(agent: string, from: number): Promise<void>
  /** Deletes that durable consumer, once nothing is to be kept for the agent. Idempotent. */
  removeReturns(agent: string): Promise<void>
  /** Lists the agents that have such a durable consumer. */
  listReturnConsumers(): Promise<string[]>
  /** Returns those of the given agents that lack a consumer they should have. Lists all consumers once, regardless of the number of agents. */
  findMissingConsumers(agents: readonly Consuming[]): Promise<string[]>
  /**
   * Creates the durable consumers of the notifiers. The first one starts at the next stored message; the others continue where it is, so that an
   * installation that only had the first one loses no notice.
   */
  ensureNotifiers(): Promise<void>
  /** Returns the fill level of an agent's parts bucket, or `undefined` if it has none. */
  partsUsage(agent: string): Promise<PartsUsage | undefined>
  /** Creates an agent's work consumers and parts bucket. `subagent: false`: only the bucket. */
  ensureAgent(agent: string, options: EnsureAgent): Promise<void>
}

export interface EnsureAgent {
  subagent: boolean
  max_attempts: number
  lease_ms: number
  /** First sequence that newly created consumers deliver. */
  from?: number
  /** `leave`: updates existing consumers only, and does not re-create lost ones. */
  lost?: 'leave'
  /** Byte limit of its parts bucket. If omitted, a new bucket gets a share of the stream's limit, and an existing one keeps its own. */
  parts_bytes?: number | undefined
}

/** `ask`: the audit service about passes. `register`: the dispatchers, about agents. */
export type Service = 'ask' | 'register'

export interface AskOptions {
  /** @defaultValue `ask` */
  service?: Service | undefined
  /** @defaultValue 2 s */
  timeout_ms?: number | undefined
  /** Called with the reason if there is no answer. */
  onUnanswered?: ((why: NoReply) => void) | undefined
}

export interface TopologyOptions {
  replicas?: number
  /** Byte limit of the stream; -1 for none. If omitted, a stream without a limit gets one (docs/operations/quotas.md). */
  max_bytes?: number
  /** Bytes that stream and buckets may reserve in total, if `max_bytes` is omitted. */
  storage_bytes?: number | undefined
  compression?: boolean
  /** Id window in ms. Must equal the stream's own, if the stream has one. */
  id_window_ms?: number | undefined
  /**
   * Behaviour if the stream has no id window: `write` stores `id_window_ms` in it (default). `refuse`, for clients that may not change the stream,
   * accepts only the default window.
   */
  silent_stream?: 'write' | 'refuse'
}
