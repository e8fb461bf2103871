import type {
  DecisionFact,
  EventFact,
  Fact,
  Part,
  PassKey,
  RequestControl,
  RequestFact,
  Step,
  WorkControl,
  WorkOutput,
} from '@passover/schemas'
import type { JournalState } from '../../journal/state-machine.js'

/** A stored request as admission reads it, or that it is none. */
export type RequestReading =
  | {
      ok: true
      value: {
        request: RequestControl
        parts: Part[]
        digest: string
        session_id: string
        unnamed_session?: true | undefined
        reply_type: 'msgpack' | 'json'
      }
    }
  | { ok: false; error: { code: string; message: string } }

/** A stored message with what the rules may want to know of it; bodies are decoded only when they are asked for. */
export interface RecordedMessage {
  fact: Fact
  /** Set where the subject says that it is a version of the policy, or of an agent's record, or about custody. */
  version?: 'policy' | 'agent' | 'custody' | undefined
  /** Of the latter: who said it. */
  sender?: string | undefined
  /** Decoded; undefined: it cannot be. */
  body(): unknown
  /** Of a request. */
  reading(): RequestReading
  /** SHA-256 (hex) of the stored bytes. */
  digest(): string
  header(name: string): string | undefined
  /** What is wrong with the inlined parts of a body, if anything: by their hashes. */
  partFault(parts: readonly Part[]): string | undefined
}

/** What an entry was held against. */
export const VERIFY_RULES = [
  'journal',
  'one_return',
  'ancestry',
  'policy',
  'approval',
  'return',
  'digest',
  'parts',
  'erasure',
  'retention',
  'trust',
] as const
export type VerifyRule = (typeof VERIFY_RULES)[number]

/**
 * `fault`: the record does not hold together, so it was changed, or a service of ours broke its word. `remark`: somebody stored what every reader
 * ignores or reads as an error; the record says so and stands.
 */
export interface VerifyFinding {
  severity: 'fault' | 'remark'
  rule: VerifyRule
  sequence: number
  key?: PassKey | undefined
  /** Who wrote the message, or asked for the pass: what one of them causes is kept from hiding what others do. Undefined: a service. */
  by?: string | undefined
  what: string
}

export interface VerifyCounts {
  messages: number
  requests: number
  passes: number
  ended: number
  steps: number
  /** Decisions of admission that were made again by the recorded policy, and refusals that were taken as they are recorded. */
  recomputed: number
  as_recorded: number
  decisions: number
  returns: number
  digests: number
  policies: number
  erased: number
}

export const NO_COUNTS: VerifyCounts = {
  messages: 0,
  requests: 0,
  passes: 0,
  ended: 0,
  steps: 0,
  recomputed: 0,
  as_recorded: 0,
  decisions: 0,
  returns: 0,
  digests: 0,
  policies: 0,
  erased: 0,
}

/** What is kept of a pass while something may still be said about it. */
export interface PassState {
  key: PassKey
  text: string
  journal: JournalState
  steps: Step[]
  /** Sequences of the steps that counted: what a child's proof may name. */
  proofs: number[]
  decisions: (DecisionFact & { body: unknown })[]
  violated: number[]
  events: (EventFact & { body: unknown })[]
  /** What people say that they applied, by digest, and who did. */
  applied_by: Map<string, string>
  control?: WorkControl | undefined
  /** As the work step holds it: the held step's was shown to people. */
  held_control?: WorkControl | undefined
  output?: WorkOutput | undefined
  /** Whether all of the output stands in its message. */
  whole?: boolean
  return_digest?: string | undefined
  cancelled: boolean
  /** Its beginning was erased, or lies before what is read: it cannot be judged. */
  partial: boolean
  /** Something of it was erased, or may have been: that a decision or a cancel is not here says nothing. */
  erased: boolean
}

/** A request that no first step has answered yet. */
export interface RequestState {
  fact: RequestFact
  recorded: RecordedMessage
  /** Its id as its header, else its body, says it. */
  text: string | undefined
  /** The pass had begun with another request: it is answered as `bad-<sequence>`. */
  other: boolean
}
