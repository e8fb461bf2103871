import type { ErrorCode } from '../base/errors.js'
import { journalFilter, type PassKey } from '../base/identifiers.js'

/** Headers of Passover messages: what readers need without the body (docs/architecture/protocol.md#payloads). */
export const HEADER = {
  id: 'Passover-Id',
  digest: 'Passover-Digest',
  /** Stream sequence of the request that a first step answers. */
  request: 'Passover-Request',
  /** Stored time (ms) of that request, so that rule 5 can be checked from the step alone. */
  requestedAt: 'Passover-Requested-At',
  timeout: 'Passover-Timeout',
  /** Expiry of a held step's approval, in ms after the step. */
  expires: 'Passover-Expires',
  /** keyText of the parent pass. */
  parent: 'Passover-Parent',
  /** Sequence of the parent's last counted step as the child knew it. */
  proof: 'Passover-Proof',
  attempt: 'Passover-Attempt',
  /** New value for each attempt to publish a step. A publisher uses it to recognise its own step if the outcome was unknown. */
  nonce: 'Passover-Nonce',
  policy: 'Passover-Policy',
  code: 'Passover-Code',
  status: 'Passover-Status',
  retryOf: 'Passover-Retry-Of',
  verdict: 'Passover-Verdict',
  /** `json` on a held or work step if the originator used JSON: the return is then sent as JSON. Absent means msgpack. */
  reply: 'Passover-Reply',
  /** `1` on a first step whose guard is not 0, because it follows messages that do not count. */
  first: 'Passover-First',
  /** On a held or work step: short name of the session that the pass counts for. */
  session: 'Passover-Session',
  contentType: 'Content-Type',
  traceparent: 'traceparent',
} as const

export const STEP_KINDS = ['held', 'work', 'fence', 'return'] as const
export type StepKind = (typeof STEP_KINDS)[number]

/** One step of a journal, from its subject and headers. Times are server ms. */
export interface Step {
  type: 'step'
  kind: StepKind
  key: PassKey
  /** Fifth token of the subject: the system, a priority (work), or the worker's agent. */
  by: string
  sequence: number
  time: number
  /** The guard of the step. `undefined` if it was published without one. */
  guard?: { sequence: number; subject: string } | undefined
  /** For a fence, the attempt that begins. For a return, the attempt that returns; 0 for a return of the system. */
  attempt: number
  nonce?: string | undefined
  digest?: string | undefined
  request?: number | undefined
  requested_at?: number | undefined
  timeout_ms?: number | undefined
  expires_ms?: number | undefined
  parent?: PassKey | undefined
  proof?: number | undefined
  code?: ErrorCode | undefined
  status?: string | undefined
  /** Set if the originator expects the answer in JSON. */
  reply?: 'json' | undefined
  session?: string | undefined
  /** Set if the dispatcher declares it the first step, although its guard names a message that does not count. */
  first?: true | undefined
  /** W3C Trace Context of the pass, if it is traced. */
  traceparent?: string | undefined
  /** Reason why readers reject it: the server published it on a client's behalf. Its headers are then not read. */
  untrusted?: string | undefined
}

/** Returns true if the server accepted a step as the first of its journal, or if the dispatcher declares that no earlier message counts. */
export function isFirst({ guard, key, first }: Step): boolean {
  return (guard?.sequence === 0 || first === true) && guard?.subject === journalFilter(key)
}

/** A stored request, from its subject and headers. Both may be wrong: admission uses the body. */
export interface RequestFact {
  type: 'request'
  originator: string
  subagent: string
  sequence: number
  time: number
  id?: string | undefined
  timeout_ms?: number | undefined
  /** Reason why readers reject it. It is answered like a malformed request. */
  untrusted?: string | undefined
}

export interface DecisionFact {
  type: 'decision'
  key: PassKey
  item: string
  person: string
  sequence: number
  time: number
  verdict?: 'approve' | 'deny' | undefined
  digest?: string | undefined
}

export const EVENT_KINDS = [
  'cancel',
  'applied',
  'started',
  'progress',
  'late',
  'dead_letter',
  'settled',
  'violation',
  'undelivered',
  'expired',
] as const
export type EventKind = (typeof EVENT_KINDS)[number]

export interface EventFact {
  type: 'event'
  kind: EventKind
  key: PassKey
  sender: string
  sequence: number
  time: number
}

/** The server stopped delivering a message of `consumer`; the body names the message. */
export interface AdvisoryFact {
  type: 'advisory'
  consumer: string
  sequence: number
  time: number
}

/** A process of `originator` reports the returns that it delivered to its callers. */
export interface AcknowledgedFact {
  type: 'acknowledged'
  originator: string
  sequence: number
  time: number
}

/** A message, neither step nor request, that readers reject: the server published it on a client's behalf. */
export interface UntrustedFact {
  type: 'untrusted'
  /** Type of the message according to its subject: `decision`, `event`, `policy` … */
  of: string
  subject: string
  key?: PassKey
  sequence: number
  time: number
  untrusted: string
}

/** Any other message in the stream: policy, agent, custody. */
export interface OtherFact {
  type: 'other'
  sequence: number
  time: number
}

/** A message as a headers-only reader of the stream sees it. */
export type Fact = Step | RequestFact | DecisionFact | EventFact | AdvisoryFact | AcknowledgedFact | OtherFact | UntrustedFact
