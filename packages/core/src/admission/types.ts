import type { AgentRecord, Part, PassError, PassOverPreferences, RequestControl, WorkControl } from '@passover/schemas'
import type { JournalState } from '../journal/state-machine.js'
import type { ChargeResult } from '../limits/budget-ledger.js'
import type { PassCounts } from '../limits/limit-counters.js'

/** Input of admission. All of it is read beforehand, from the leader where consistency matters. Times are server ms. */
export interface AdmitInput {
  request: RequestControl
  /** Originator and subagent in the request's subject. Permissions restrict only the subject, so the body is compared with it. */
  subject: { originator: string; subagent: string }
  request_sequence: number
  /** Time at which the stream stored the request. */
  requested_at: number
  now: number
  parts: readonly Pick<Part, 'name' | 'hash' | 'size'>[]
  digest: string
  session_id: string
  /** True if the caller named no session. */
  unnamed_session?: true | undefined
  reply_type: 'msgpack' | 'json'
  agents: {
    originator?: AgentRecord | undefined
    subagent?: AgentRecord | undefined
    /** True with open registration: an originator without a record may start passes. */
    open: boolean
  }
  /** The pass that the request names as its parent, read from the leader. `undefined` if there is no such pass. */
  parent?: ParentPass | undefined
  policy: { version: number; document: PassOverPreferences }
  id_window_ms: number
  /** New random value from the caller. The children of this pass use it to prove their parent. */
  return_id: string
  trace_id?: string | undefined
  /** The only person of a local server. */
  local_person?: string | undefined
  /** Counts of the dispatcher. `undefined` if no limit applies. */
  counts?: PassCounts | undefined
  /** Result of charging the budgets above. `undefined` if there are none, or if they have not been charged yet. */
  charged?: ChargeResult | undefined
}

export interface ParentPass {
  journal: JournalState
  control: WorkControl
}

export type AdmissionDecision =
  /** `keep` selects the parts that the policy lets through. */
  | { kind: 'admit'; control: WorkControl; keep: (part: { name: string }) => boolean }
  | { kind: 'hold'; control: WorkControl; expires_ms: number }
  | { kind: 'refuse'; error: PassError }
  /** A limit is set, but its counts are not loaded yet. */
  | { kind: 'later' }
