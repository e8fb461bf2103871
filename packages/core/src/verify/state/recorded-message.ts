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

/** A stored request as admission reads it, or the error if it is invalid. */
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

/** A stored message with the data that the rules need. Bodies are decoded on demand. */
export interface RecordedMessage {
  fact: Fact
  /** The subject under which it is stored. */
  subject: string
  /** Set if the subject is that of a policy version, a version of an agent's record, or a custody event. */
  version?: 'policy' | 'agent' | 'custody' | undefined
  /** Sender of a custody event. */
  sender?: string | undefined
  /** Returns the decoded body, or `undefined` if it cannot be decoded. */
  body(): unknown
  /** Parses the message as a request. */
  reading(): RequestReading
  /** SHA-256 (hex) of the stored bytes. */
  digest(): string
  header(name: string): string | undefined
  /** Checks the inlined parts of a body against their hashes. Returns the fault, or `undefined`. */
  partFault(parts: readonly Part[]): string | undefined
}

/** Rules that entries are checked by. */
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
 * `fault`: the stored data contradicts itself, so it was changed, or one of the services is faulty. `remark`: a sender stored something that every
 * reader ignores or reads as an error; the data itself is consistent.
 */
export interface VerifyFinding {
  severity: 'fault' | 'remark'
  rule: VerifyRule
  sequence: number
  key?: PassKey | undefined
  /**
   * Sender of the message, or originator of the pass; `undefined` for a service. Findings are limited per sender, so that the findings of one cannot
   * hide those of others.
   */
  by?: string | undefined
  what: string
}

export interface VerifyCounts {
  messages: number
  requests: number
  passes: number
  ended: number
  steps: number
  /** Number of admission decisions that were repeated by the recorded policy. The next field counts refusals that were taken as recorded. */
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

/** State of a pass that is kept as long as it may be needed. */
export interface PassState {
  key: PassKey
  text: string
  journal: JournalState
  steps: Step[]
  /** Sequences of the steps that count. A child's proof may name them. */
  proofs: number[]
  decisions: (DecisionFact & { body: unknown })[]
  violated: number[]
  events: (EventFact & { body: unknown })[]
  /** Changes that people reported as applied: the person by digest. */
  applied_by: Map<string, string>
  control?: WorkControl | undefined
  /** Control frame of the held step, which was shown to people. */
  held_control?: WorkControl | undefined
  output?: WorkOutput | undefined
  /** True if the message contains the complete output. */
  whole?: boolean
  return_digest?: string | undefined
  cancelled: boolean
  /** True if its first messages were erased or precede the verified range, so that it cannot be judged. */
  partial: boolean
  /** True if messages of it were erased, or may have been. A missing decision or cancel then proves nothing. */
  erased: boolean
}

/** A request that no first step has answered yet. */
export interface RequestState {
  fact: RequestFact
  recorded: RecordedMessage
  /** Key text of the requested pass; the id is from the header, or else from the body. */
  text: string | undefined
  /** True if the pass began with another request. This request is answered as `bad-<sequence>`. */
  other: boolean
}

/** Returns the digest that the first step of a request carries: of its content, or of its bytes if it cannot be read. */
export function requestDigest(recorded: RecordedMessage): string {
  const reading = recorded.reading()
  return reading.ok ? reading.value.digest : recorded.digest()
}
