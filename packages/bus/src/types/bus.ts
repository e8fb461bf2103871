import type { Fact, PassKey, Slot } from '@passover/schemas'
import type { z } from 'zod'
import type { Subjects } from '../subjects/subjects.js'
import type { PublishMessage, PublishResult, StoredMessage } from '../wire/messages.js'
import type { AckDecision, ConsumeSettings, Consumption, Delivery, WorkSource } from './deliveries.js'
import type { NoReply } from './errors.js'
import type { ConsumerStanding, Consuming, Inspection, PartsUsage, SlotLoad, StreamUsage } from './inspection.js'
import type { Journal } from './journal.js'
import type { ObjectStore, PartStore, Table } from './stores.js'
import type { FollowOptions, LiveSubscription, ReceivedReturn, StreamSubscription, SubscribeOptions, WaitedFor } from './subscriptions.js'

/** Why a server lets a connection in no more: its credentials were revoked, have expired, or are refused for a reason that it does not say. */
export type Denied = 'revoked' | 'expired' | 'refused'

/** Everything a part of Passover does with NATS. One connection. */
export interface Bus extends AsyncDisposable {
  /** The name it is connected as. */
  readonly identity: string
  readonly subjects: Subjects
  /** The server's time, whole ms, as last measured and counted on monotonically; the local clock before the first measure. */
  now(): number
  /** Measures the server's time anew; false when nobody told it quickly enough. Done by itself at connecting, reconnecting and every minute. */
  measureClock(): Promise<boolean>
  /** Whether `now()` and `connectedAt()` rest on a measure made since the last (re)connect. Until then nothing may rest on them. */
  readonly clockMeasured: boolean
  /** Whether the server has ever told its time on this connection. Until then `now()` is the local clock, which may be wrong by hours. */
  readonly clockKnown: boolean
  /** Server's time of the last (re)connect. */
  connectedAt(): number
  /**
   * How long ids may be used (ms), as the stream has it; undefined: it says none (then it is DEFAULT_ID_WINDOW_MS), or nobody told it yet. Known once
   * the stream was asked for anything, or the audit answered who may not ask it.
   */
  readonly idWindow: number | undefined
  /** True when the server is one of a cluster: core messages may then get lost unseen. */
  readonly clustered: boolean
  onReconnect(listener: () => void): () => void
  readonly connected: boolean
  /** Why the server refuses to let this connection in again; undefined: it does not, or is not there. */
  readonly denied?: Denied | undefined
  /** Settles when the connection is closed for good. */
  readonly closed: Promise<Error | undefined>

  publish(message: PublishMessage): Promise<PublishResult>
  readonly journal: Journal
  /** `returned.<originator>.<prefix>.>` or, with a whole id, `returned.<originator>.<prefix>.<rest>.>` */
  subscribeReturns(
    originator: string,
    prefixOrId: string,
    onHeard: (heard: ReceivedReturn) => void,
    also?: SubscribeOptions,
  ): Promise<LiveSubscription>
  /** Asks the process that would hear the return of this pass, stored at `returned`, whether it has to do with it yet. */
  isWaitedFor(key: PassKey, returned: number): Promise<WaitedFor>
  /**
   * Calls back when a held step or a fence is published for a pass of `originator`, stored or not: such a pass does not go straight from
   * its work to its return. A hint and no more, for anybody may cause it.
   */
  subscribeIntermediateSteps(originator: string, onDetour: (key: PassKey) => void): Promise<LiveSubscription>
  /** System returns for passes that `subagent` works on: `returned.*.*.*.<subagent>.passover`. */
  subscribeTerminations(subagent: string, onHeard: (heard: ReceivedReturn) => void): Promise<LiveSubscription>
  work(subagent: string, slot: Slot): WorkSource
  /** A durable consumer's deliveries, at most `concurrency` at a time. */
  consume(durable: string, handler: (delivery: Delivery) => Promise<AckDecision>, options?: ConsumeSettings): Promise<Consumption>
  follow(options: FollowOptions, onMessage: (stored: StoredMessage, fact: Fact) => void | Promise<void>): Promise<StreamSubscription>
  /** Sequence of the last stored message, and of the first one still there. */
  bounds(): Promise<{ first: number; last: number }>
  /** How full the stream is (max_bytes undefined: no limit of its own), and whether it takes requests. */
  usage(): Promise<StreamUsage>
  /** How a subagent's three work consumers stand; [] when it has none. */
  workload(subagent: string): Promise<SlotLoad[]>
  /** What `passover doctor` looks at; what is merely missing is told, not thrown. */
  inspect(): Promise<Inspection>
  /** Why the server refuses every write, by its last answer to this process; undefined: it does not. */
  readonly refusing: string | undefined
  /** State of a durable consumer; undefined: it does not exist. */
  consumer(durable: string): Promise<ConsumerStanding | undefined>
  /** Takes `request.>` out of the stream's subjects at the high-water mark, and puts it back. */
  setRequests(state: 'open' | 'closed'): Promise<void>
  readonly parts: PartStore
  table<T>(bucket: string, schema: z.ZodType<T>): Promise<Table<T>>
  objects(bucket: string): Promise<ObjectStore>
  /** Core request to `<service>.<identity>` (default service `ask`); undefined when nobody answers in time (default 2 s). */
  ask(question: unknown, options?: AskOptions): Promise<unknown>
  /** Answers `<service>.*`; asker is the subject's token, pinned by permissions. Replicas share the work. */
  answer(handler: (asker: string, question: unknown) => Promise<unknown>, service?: Service): Promise<Consumption>
  /** A core hint (nobody may depend on it): `decided.<originator>`. */
  hintDecided(originator: string): void
  onDecided(originator: string, listener: () => void): Promise<AsyncDisposable>
  /**
   * Makes stream, republish, consumers and buckets as they should be; TopologyError where someone else made them differently, StreamLost
   * where the stream is gone and what was made of it is not.
   */
  ensureTopology(options?: TopologyOptions): Promise<void>
  /**
   * The main stream (`stream`) and the buckets that are there (object buckets as `objects <name>`), with the server's time at which each
   * was made: one made anew since is not the one that was read.
   */
  stores(): Promise<ReadonlyMap<string, number>>
  /** Makes the buckets that are missing; never the stream (decision 55). */
  ensureBuckets(): Promise<void>
  /** The durable of an agent that asks for delivery: what returned to it from that sequence on. */
  ensureReturns(agent: string, from: number): Promise<void>
  /** That durable, where nothing shall wait for the agent any more. Idempotent. */
  removeReturns(agent: string): Promise<void>
  /** Agents that have such a durable. */
  listReturnConsumers(): Promise<string[]>
  /** Of these agents those that lack a consumer that they should have; one question, however many there are. */
  findMissingConsumers(agents: readonly Consuming[]): Promise<string[]>
  /** The durables of the notifiers, which begin at what is stored next. */
  ensureNotifiers(): Promise<void>
  /** How full an agent's parts bucket is; undefined: it has none. */
  partsUsage(agent: string): Promise<PartsUsage | undefined>
  /** An agent's work consumers and parts bucket. `subagent: false`: only the bucket. */
  ensureAgent(agent: string, options: EnsureAgent): Promise<void>
}

export interface EnsureAgent {
  subagent: boolean
  max_attempts: number
  lease_ms: number
  /** First sequence that consumers made now deliver. */
  from?: number
  /** Lost consumers are not made anew: only what is there follows. */
  lost?: 'leave'
  /** Byte limit of its parts bucket; left out: a share of the stream's limit for a new bucket, and whatever limit an existing one has. */
  parts_bytes?: number | undefined
}

/** `ask`: the audit service about passes. `register`: the dispatchers, about agents. */
export type Service = 'ask' | 'register'

export interface AskOptions {
  /** @defaultValue `ask` */
  service?: Service | undefined
  /** @defaultValue 2 s */
  timeout_ms?: number | undefined
  /** Called with the reason when there is no answer. */
  onUnanswered?: ((why: NoReply) => void) | undefined
}

export interface TopologyOptions {
  replicas?: number
  /** Byte limit of the stream, -1: none. Left out: chosen for a stream that has none (docs/operations/quotas.md). */
  max_bytes?: number
  /** Bytes that stream and buckets may reserve in all, where `max_bytes` is left out. */
  storage_bytes?: number | undefined
  compression?: boolean
  /** How long ids may be used; a stream that says it must say the same. */
  id_window_ms?: number | undefined
  /**
   * What is done with `id_window_ms` where the stream says none: it is written (default), or, by who may not change the stream, refused unless
   * it is the default.
   */
  silent_stream?: 'write' | 'refuse'
}
