import type { Priority } from '@passover/schemas'

export interface PriorityLoad {
  priority: Priority
  /** Number of waiting pulls, that is of idle places of workers. */
  idle: number
  /** Number of work messages not yet delivered, and of those delivered but not acknowledged. */
  queued: number
  running: number
  /** Sequence of the newest work message delivered to a worker; 0 if there is none. */
  delivered: number
  /** Server time of the consumer's creation, ms. */
  created: number
}

/** Consumers that an agent should have: for its work, and for its durable returns. */
export interface Consuming {
  name: string
  work: boolean
  returns: boolean
}

/** State of server, stream and buckets. */
export interface Inspection {
  server: { version: string; name: string; id: string; cluster?: string; max_payload: number; jetstream: boolean; rtt_ms: number }
  /** Server time minus local time, ms. */
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
    /** Other servers with a replica, and whether each is up to date. */
    peers: { name: string; current: boolean; offline: boolean }[]
  }
  /** JetStream domain, if any. */
  domain?: string
  /** Limits of the account (-1: unlimited), or `undefined` if these permissions do not allow reading them. */
  account?: AccountLimits
  /** Server time minus local time, for every server that leads one of our streams. */
  clocks: { server: string; skew_ms: number }[]
  /** Changes that ensureTopology would refuse or make, as text; [] if there are none. */
  differences: string[]
  consumers: string[]
  /** Paused consumers, which deliver nothing until they are resumed: those of dispatchers and notifiers, and the first 200 others. */
  paused: string[]
  buckets: BucketStanding[]
  /** Streams of the account, ours or others', that can use storage reserved by our limits. */
  unbounded: string[]
}

/** Limits of an account; -1 for none. */
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
  /** Byte limit, -1 if unlimited. */
  max_bytes: number
  sealed: boolean
  storage: string
  replicas: number
}

/** State of a consumer. */
export interface ConsumerState {
  /** Number of stored messages not yet delivered. */
  pending: number
  /** Consumer sequence of its last delivery. */
  delivered: number
  /** Number of deliveries not yet acknowledged. */
  unacknowledged: number
  /** Stream sequence up to which every delivery is acknowledged. */
  settled: number
  paused: boolean
}

/** Fill level of a parts bucket. */
export interface PartsUsage {
  bytes: number
  /** Byte limit, `undefined` if it has none. */
  max_bytes?: number
}

export interface StreamUsage {
  messages: number
  bytes: number
  max_bytes?: number
  requests: 'open' | 'closed'
}
