import type { Fact, HEADER, Part, PassKey, Slot, Step } from '@passover/schemas'
import type { z } from 'zod'
import type { Subjects } from './subjects.js'

/** A header's name: one of ours, or any. */
export type HeaderName = (typeof HEADER)[keyof typeof HEADER] | (string & {})

/** Read-only headers; of a repeated header `last` is the server's (forged ones come first). */
export interface MessageHeaders {
  get(name: HeaderName): string | undefined
  last(name: HeaderName): string | undefined
  /** All of them in stored order, repeats included; none that a read added. */
  pairs(): [string, string][]
  /** The block as it is stored, for those who keep it; `readHeaders` reads it again. */
  text(): string
}

/** A message as the stream stores it. */
export interface Stored {
  subject: string
  sequence: number
  /** Server's time, ms. */
  time: number
  headers: MessageHeaders
  /** Empty for a headers-only reader. */
  data: Uint8Array
}

/** A message to store. Without a guard the server stores it whatever came before. */
export interface Outgoing {
  subject: string
  headers?: Partial<Record<string, string>>
  data?: Uint8Array
  guard?: Guard
}

/** The last message on `subject` (a filter) must be `sequence`; 0: there is none. */
export interface Guard {
  subject: string
  sequence: number
}

/** Anything but `stored` proves nothing but that I did not win: read the journal (DESIGN §2). */
export type Outcome =
  | { kind: 'stored'; sequence: number }
  /** The guard did not hold; in a cluster mostly without `last`. */
  | { kind: 'lost'; last?: number }
  /** The server will not take it: stream full, payload too large, subject closed, no permission. */
  | { kind: 'refused'; reason: 'full' | 'too_large' | 'closed' | 'permission' | 'other'; description: string }
  | { kind: 'unknown'; description: string }

/** What to do next about a journal, having seen its steps. */
export type Plan<T> = { done: T } | { publish: Outgoing; stored: (sequence: number) => T }

export interface AdvanceOptions<T = unknown> {
  /** `leader`: STREAM.MSG.GET, what is not found is not there. `glimpse`: exact direct gets, for agents. */
  read: 'leader' | 'glimpse'
  /** Steps already known; without them the first plan is made blind, from []. */
  known?: Step[]
  /** Give up after so long, its reads included (default 15 s, for a cluster without a leader). */
  deadline_ms?: number
  /**
   * The plan for a journal that is too long to be read (see JournalTooLong.steps, which are given). Without it such an advance
   * ends as `unknown`. A guard on the last step of all may never hold there; one on what only `passover` may write does.
   */
  too_long?: (steps: Step[], tries: number) => Plan<T>
  /** Where a leader read may start: the sequence of the request, say. */
  from?: number
  signal?: AbortSignal
}

export type Advanced<T> = { ok: true; value: T } | { ok: false; outcome: Outcome }

/** The journal of a pass: read it, and publish the step after the one before. */
export interface Journal {
  /** All steps in sequence order as the leader has them. Throws JournalTooLong where they are more than any honest pass has. */
  read(key: PassKey, from?: number): Promise<Step[]>
  /** Steps that exact direct gets find; nothing found is no proof. */
  glimpse(key: PassKey): Promise<Step[]>
  /** One step or event with its body: the last message of an exact subject, by direct get. */
  last(subject: string): Promise<Stored | undefined>
  /** The first message at or after `from` that a filter matches, as the leader has it; the newest one of all. Not for agents. */
  first(filter: string, from: number): Promise<Stored | undefined>
  newest(filter: string): Promise<Stored | undefined>
  /** One stored message by sequence, from the leader. */
  message(sequence: number): Promise<Stored | undefined>
  /**
   * Everything stored of a pass, in order: its request, steps, events, decisions. Leader; not for agents. Of a journal that is too
   * long it has the first steps and the last of every subject, and calls `onCut`: those must not be folded as if they were all.
   */
  history(key: PassKey, from?: number, onCut?: () => void): Promise<Stored[]>
  /** Deletes one message for good (audit's retention only); true when it is gone, also when it was before. */
  deleteMessage(sequence: number): Promise<boolean>
  /**
   * Plans, publishes, and where the outcome is not `stored` reads the journal and plans anew, until done.
   * `refused` ends it at once, except `closed`, which is tried again until the deadline.
   */
  advance<T>(key: PassKey, plan: (steps: Step[], tries: number) => Plan<T>, options: AdvanceOptions<T>): Promise<Advanced<T>>
}

/** A delivery that must be answered. */
export interface Delivery extends Stored {
  /** 1 for the first delivery. */
  delivered: number
  /** Sequence of the delivery at its consumer; going back means that the consumer was made anew. */
  consumer_sequence: number
  ack(): void
  /** Renews the lease. */
  working(): void
  /** Gives it back for redelivery. */
  nak(delay_ms?: number): void
  /** Never deliver again. */
  term(reason?: string): void
}

/** What became of a delivery: acknowledged, given back, or terminated and told. */
export type Verdict = { ok: true } | { retry: true; delay_ms?: number } | { fatal: string }

export interface Consumption extends AsyncDisposable {
  /** Why nothing is delivered now; undefined: nothing is known to be wrong. */
  readonly trouble?: string | undefined
  /** Stops new deliveries, waits for those under way (at most ms), then closes. */
  drain(ms?: number): Promise<void>
  readonly closed: Promise<void>
}

export interface ConsumeSettings {
  /** Handlers at a time; a function is asked whenever more could be taken. */
  concurrency?: number | (() => number)
  /** The durable was gone and was made anew. */
  onRestored?: (what: string) => void
}

export interface PullOptions {
  batch: number
  /** 0: do not wait, answer at once whether there is something. */
  expires_ms: number
}

/** Why a pull ended: all came, nothing (more) there, consumer gone, connection trouble. */
export type PullEnd = 'full' | 'empty' | 'gone' | 'failed'

/** One of a subagent's three work consumers. Disposing it ends its pulls at once: nothing more is handed out for them. */
export interface WorkSource extends AsyncDisposable {
  readonly slot: Slot
  pull(options: PullOptions, onDelivery: (delivery: Delivery) => void): Promise<PullEnd>
  /** Server's time at which the consumer was made; asks the server. Undefined: it does not exist. */
  created(): Promise<number | undefined>
}

export interface FollowOptions {
  /** Subject filters; all when left out. */
  filters?: string[]
  /** First sequence wanted (default 1). */
  from?: number
  headers_only?: boolean
  /** The stream is another one, or lost its end: its last sequence is below the position, which is now there. */
  onWentBack?: (last: number) => void
}

/**
 * An ordered reader: every stored message once, in order, also across reconnects.
 * A handler that throws is called again with the same message after a second: nothing is skipped.
 */
export interface Following extends AsyncDisposable {
  /** Sequence of the last message handed on (0: none). */
  readonly position: number
  /** Why nothing is read now; undefined: nothing is known to be wrong. */
  readonly trouble?: string | undefined
  /** Settles when everything that was stored when it began has been handed on (also if that is nothing, or deleted since). */
  readonly caughtUp: Promise<void>
  readonly closed: Promise<void>
}

/** A return as the stream republished it, its server headers checked. */
export interface Heard {
  key: PassKey
  by: string
  stored: Stored
}

export interface HearAlso {
  /** Something came under a return's subject that the stream did not republish: the journal should be read. */
  onSuspect?: ((key: PassKey) => void) | undefined
  /** Answers other processes of the same name: whether this return is waited for, or being handed over, here. */
  isWaited?: ((key: PassKey, returned: number) => boolean) | undefined
}

/** `nobody`: no process hears that pass's return. `silent`: one does, and did not answer. */
export type WaitedFor = 'waited' | 'not_waited' | 'nobody' | 'silent'

export interface Hearing extends AsyncDisposable {
  readonly closed: boolean
}

/** Large parts by content hash in the object buckets `parts_<agent>`. */
export interface PartStore {
  /** Moves what is too large to inline into the owner's bucket; returns parts that fit a message. */
  stow(owner: string, parts: Part[]): Promise<Part[]>
  /** The bytes of a part, checked against its hash. Throws PartError when they are gone or differ. */
  fetch(part: Part): Promise<Uint8Array>
  /** Deletes a stored part. Not for agents. */
  remove(owner: string, hash: string): Promise<void>
}

export interface Entry<T> {
  key: string
  value: T
  revision: number
}

export interface TableExtent {
  first: number
  last: number
  entries: number
  most?: number
  first_time?: number
}

/** A typed key-value bucket. */
export interface Table<T> {
  get(key: string): Promise<Entry<T> | undefined>
  /** Pipelined: any number may be under way. Throws TableError when it was not written. */
  put(key: string, value: T): Promise<number>
  /** undefined: the key is there already. */
  create(key: string, value: T): Promise<number | undefined>
  /** Compare-and-set; undefined: someone was faster. */
  update(key: string, value: T, revision: number): Promise<number | undefined>
  /** `update`, with revision 0 `create`, without one `put`, for who writes many: encoded already, without a promise, and told how it went as it went. */
  send(key: string, data: Uint8Array, revision: number | undefined, settle: (outcome: Outcome) => void): void
  delete(key: string): Promise<void>
  /** Entries whose key matches the filter (default all), newest value each. */
  entries(filter?: string): AsyncIterable<Entry<T>>
  /** Entries among the last `count` writes, oldest first. */
  newest(count: number): AsyncIterable<Entry<T>>
  /** The entry that was written with this revision; undefined: it was written over, or is gone. Asks any replica. */
  at(revision: number): Promise<Entry<T> | undefined>
  /** What stands under a key as its bytes, whatever they say. */
  bytesOf(key: string): Promise<{ data: Uint8Array; revision: number } | undefined>
  /** Hands on every entry as its bytes, in the order of writing and without keeping them: for who reads a large bucket. Ends early when `signal` says so. */
  read(onEntry: (entry: { key: string; data: Uint8Array; revision: number }) => void | Promise<void>, signal?: AbortSignal): Promise<void>
  /** Lowest and highest revision there, how many entries there are and may be (undefined: any number), and when the oldest was written (ms). */
  extent(): Promise<TableExtent>
  /** Calls back for every present entry, then for each change (value undefined: deleted). Survives reconnects. `ready` settles after the present ones. */
  watch(onChange: (key: string, value: T | undefined) => void, filter?: string): Promise<{ ready: Promise<void> } & AsyncDisposable>
}

export interface ObjectStore {
  put(name: string, data: Uint8Array | ReadableStream<Uint8Array>, meta?: Record<string, string>): Promise<void>
  get(name: string): Promise<Uint8Array | undefined>
  info(name: string): Promise<{ size: number; meta: Record<string, string> } | undefined>
  list(): Promise<string[]>
  delete(name: string): Promise<void>
}

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
  /** Server's time of the last (re)connect. */
  connectedAt(): number
  /** True when the server is one of a cluster: core messages may then get lost unseen. */
  readonly clustered: boolean
  onReconnect(listener: () => void): () => void
  readonly connected: boolean
  /** Settles when the connection is closed for good. */
  readonly closed: Promise<Error | undefined>

  publish(message: Outgoing): Promise<Outcome>
  readonly journal: Journal
  /** `returned.<originator>.<prefix>.>` or, with a whole id, `returned.<originator>.<prefix>.<rest>.>` */
  hearReturns(originator: string, prefixOrId: string, onHeard: (heard: Heard) => void, also?: HearAlso): Promise<Hearing>
  /** Asks the process that would hear the return of this pass, stored at `returned`, whether it has to do with it yet. */
  isWaitedFor(key: PassKey, returned: number): Promise<WaitedFor>
  /**
   * Calls back when a held step or a fence is published for a pass of `originator`, stored or not: such a pass does not go straight from
   * its work to its return. A hint and no more, for anybody may cause it.
   */
  hearDetours(originator: string, onDetour: (key: PassKey) => void): Promise<Hearing>
  /** System returns for passes that `subagent` works on: `returned.*.*.*.<subagent>.passover`. */
  hearEndings(subagent: string, onHeard: (heard: Heard) => void): Promise<Hearing>
  work(subagent: string, slot: Slot): WorkSource
  /** A durable consumer's deliveries, at most `concurrency` at a time. */
  consume(durable: string, handler: (delivery: Delivery) => Promise<Verdict>, options?: ConsumeSettings): Promise<Consumption>
  follow(options: FollowOptions, onMessage: (stored: Stored, fact: Fact) => void | Promise<void>): Promise<Following>
  /** Sequence of the last stored message, and of the first one still there. */
  bounds(): Promise<{ first: number; last: number }>
  /** How full the stream is (max_bytes undefined: no limit of its own), and whether it takes requests. */
  usage(): Promise<StreamUsage>
  /** How a subagent's three work consumers stand; [] when it has none. */
  workload(subagent: string): Promise<SlotLoad[]>
  /** What `passover doctor` looks at; what is merely missing is told, not thrown. */
  inspect(): Promise<Inspection>
  /** Takes `request.>` out of the stream's subjects at the high-water mark, and puts it back. */
  setRequests(state: 'open' | 'closed'): Promise<void>
  readonly parts: PartStore
  table<T>(bucket: string, schema: z.ZodType<T>): Promise<Table<T>>
  objects(bucket: string): Promise<ObjectStore>
  /** Core request to `<service>.<identity>` (default service `ask`); undefined when nobody answers in time (default 2 s). */
  ask(question: unknown, options?: { service?: Service; timeout_ms?: number }): Promise<unknown>
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
  /** The durable of the notifiers, which begins at what is stored next. */
  ensureNotifier(): Promise<void>
  /** An agent's work consumers and parts bucket. `subagent: false`: only the bucket. */
  ensureAgent(agent: string, options: { subagent: boolean; max_attempts: number; lease_ms: number; from?: number }): Promise<void>
}

export interface SlotLoad {
  slot: Slot
  /** Parked pulls: idle places of workers. */
  idle: number
  /** Work that nobody took yet, and work taken and not acknowledged. */
  queued: number
  running: number
  /** Server ms at which the consumer was made. */
  created: number
}

/** How server, stream and buckets stand. */
export interface Inspection {
  server: { version: string; name: string; id: string; cluster?: string; max_payload: number; jetstream: boolean; rtt_ms: number }
  /** Server − local. */
  clock_skew_ms: number
  stream?: {
    name: string
    messages: number
    bytes: number
    first: number
    last: number
    max_bytes: number
    replicas: number
    discard: string
    retention: string
    max_age_ms: number
    allow_direct: boolean
    republish: boolean
    sealed: boolean
    storage: string
    subjects: string[]
    /** Other servers that hold it, and whether they have all of it. */
    peers: { name: string; current: boolean; offline: boolean }[]
  }
  /** JetStream's domain, where it has one. */
  domain?: string
  /** What the account may use (-1: as much as there is); undefined: not to be seen with these permissions. */
  account?: AccountLimits
  /** Server − local of every server that leads one of our streams. */
  clocks: { server: string; skew_ms: number }[]
  /** What ensureTopology would refuse or make, in words; [] when all is as it should be. */
  differences: string[]
  consumers: string[]
  buckets: { name: string; kind: 'kv' | 'object'; messages: number; bytes: number; storage: string; replicas: number }[]
}

/** Limits of an account, -1: none of its own. */
export interface AccountLimits {
  streams: number
  consumers: number
  max_streams: number
  max_consumers: number
  max_storage: number
  max_ack_pending: number
  storage_max_stream_bytes: number
  max_bytes_required: boolean
}

export interface StreamUsage {
  messages: number
  bytes: number
  max_bytes?: number
  requests: 'open' | 'closed'
}

/** `ask`: the audit service about passes. `register`: the dispatchers, about agents. */
export type Service = 'ask' | 'register'

export interface TopologyOptions {
  replicas?: number
  max_bytes?: number
  compression?: boolean
}
