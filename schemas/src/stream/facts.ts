import type { ErrorCode } from '../base/errors.js'
import { journalFilter, type PassKey } from '../base/identifiers.js'

/** Headers of ours; what readers need without the body (docs/architecture/protocol.md#payloads). */
export const HEADER = {
  id: 'Passover-Id',
  digest: 'Passover-Digest',
  /** Stream sequence of the request that a first step answers. */
  request: 'Passover-Request',
  /** Stored time (ms) of that request; lets rule 5 be judged from the step alone. */
  requestedAt: 'Passover-Requested-At',
  timeout: 'Passover-Timeout',
  /** When a held step's approval expires, as ms after the step. */
  expires: 'Passover-Expires',
  /** keyText of the parent pass. */
  parent: 'Passover-Parent',
  /** Sequence of the parent's last step as the child knew it. */
  proof: 'Passover-Proof',
  attempt: 'Passover-Attempt',
  /** Made anew for each publisher's attempt at a step: tells one's own step when an outcome was unknown. */
  nonce: 'Passover-Nonce',
  policy: 'Passover-Policy',
  code: 'Passover-Code',
  status: 'Passover-Status',
  retryOf: 'Passover-Retry-Of',
  verdict: 'Passover-Verdict',
  /** `json` on a held or work step whose originator spoke JSON: whoever ends the pass answers in kind. Absent: msgpack. */
  reply: 'Passover-Reply',
  /** `1` on a first step whose guard is not 0, because messages that count for nothing stood before it. */
  first: 'Passover-First',
  /** On a held or work step: a short name of the session that the pass counts for. */
  session: 'Passover-Session',
  contentType: 'Content-Type',
  traceparent: 'traceparent',
} as const

export const STEP_KINDS = ['held', 'work', 'fence', 'return'] as const
export type StepKind = (typeof STEP_KINDS)[number]

/** One step of a journal, as far as its subject and headers tell. Times in ms, by the server. */
export interface Step {
  type: 'step'
  kind: StepKind
  key: PassKey
  /** Fifth token: the system, a slot (work), or the worker's agent. */
  by: string
  sequence: number
  time: number
  /** What its guard expected, undefined when it was published without one. */
  guard?: { sequence: number; subject: string } | undefined
  /** Fence: the attempt that begins. Return: the attempt that returns, 0 for the system's. */
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
  /** Set when the originator is to be answered in JSON. */
  reply?: 'json' | undefined
  session?: string | undefined
  /** The dispatcher says that it is the first step, although its guard names a message that counts for nothing. */
  first?: true | undefined
  /** W3C Trace Context of the pass, where it is traced. */
  traceparent?: string | undefined
  /** Why no reader believes it: the server published it on a client's behalf. Then the headers are not read. */
  untrusted?: string | undefined
}

/** Whether the server took a step as the first of its journal, or the dispatcher says that nothing before it counts. */
export function isFirst({ guard, key, first }: Step): boolean {
  return (guard?.sequence === 0 || first === true) && guard?.subject === journalFilter(key)
}

/** A stored request, as far as its subject and headers tell (both may lie: admission trusts the body). */
export interface RequestFact {
  type: 'request'
  originator: string
  subagent: string
  sequence: number
  time: number
  id?: string | undefined
  timeout_ms?: number | undefined
  /** Why no reader believes it: it is answered as a malformed one. */
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

/** The server gave up delivering a message of `consumer`; its body names which one. */
export interface AdvisoryFact {
  type: 'advisory'
  consumer: string
  sequence: number
  time: number
}

/** A process of `originator` says which returns it handed to their callers. */
export interface AcknowledgedFact {
  type: 'acknowledged'
  originator: string
  sequence: number
  time: number
}

/** A message, neither step nor request, that no reader believes: the server published it on a client's behalf. */
export interface UntrustedFact {
  type: 'untrusted'
  /** What its subject says that it is: `decision`, `event`, `policy` … */
  of: string
  subject: string
  key?: PassKey
  sequence: number
  time: number
  untrusted: string
}

/** Anything else in the stream: policy, agent, custody. */
export interface OtherFact {
  type: 'other'
  sequence: number
  time: number
}

/** What a headers-only reader of the stream knows of a message. */
export type Fact = Step | RequestFact | DecisionFact | EventFact | AdvisoryFact | AcknowledgedFact | OtherFact | UntrustedFact
