import type { Slot } from '@passover/schemas'

export interface SlotLoad {
  slot: Slot
  /** Parked pulls: idle places of workers. */
  idle: number
  /** Work that nobody took yet, and work taken and not acknowledged. */
  queued: number
  running: number
  /** Sequence of the newest work that was handed to a worker; 0: none was. */
  delivered: number
  /** Server ms at which the consumer was made. */
  created: number
}

/** What consumers an agent should have: of its work, of returns that wait for it. */
export interface Consuming {
  name: string
  work: boolean
  returns: boolean
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
  /** Paused consumers, which deliver nothing until they are resumed: of dispatchers, notifiers, and the first 200 others. */
  paused: string[]
  buckets: BucketStanding[]
  /** Streams of the account, ours or others', that can take storage which limits of ours reserve. */
  unbounded: string[]
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
}

export interface BucketStanding {
  name: string
  kind: 'kv' | 'object'
  messages: number
  bytes: number
  /** -1: unlimited. */
  max_bytes: number
  sealed: boolean
  storage: string
  replicas: number
}

/** State of a consumer. */
export interface ConsumerStanding {
  /** Stored messages that it has not delivered yet. */
  pending: number
  /** Sequence among its deliveries of the last one. */
  delivered: number
  /** Deliveries that are not acknowledged yet. */
  unacknowledged: number
  /** Sequence in the stream up to which everything that it delivered is acknowledged. */
  settled: number
  paused: boolean
}

/** How full a parts bucket is. */
export interface PartsUsage {
  bytes: number
  /** Undefined: it has no limit. */
  max_bytes?: number
}

export interface StreamUsage {
  messages: number
  bytes: number
  max_bytes?: number
  requests: 'open' | 'closed'
}
