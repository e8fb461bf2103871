import type { AgentRecord, Part, PassError, PassOverPreferences, RequestControl, Slot, WorkControl } from '@passover/schemas'
import type { JournalState } from '../journal/state-machine.js'
import type { ChargeResult } from '../limits/budget-ledger.js'
import type { PassCounts } from '../limits/limit-counters.js'

/** Everything that admission looks at; all of it was read before, at the leader where it matters. Times in server ms. */
export interface AdmitInput {
  request: RequestControl
  /** Who the request's subject names: only that is pinned by permissions. */
  subject: { originator: string; subagent: string }
  request_sequence: number
  /** When the stream stored the request. */
  requested_at: number
  now: number
  parts: readonly Pick<Part, 'name' | 'hash' | 'size'>[]
  digest: string
  session_id: string
  /** The caller named no session. */
  unnamed_session?: true | undefined
  reply_type: 'msgpack' | 'json'
  agents: {
    originator?: AgentRecord | undefined
    subagent?: AgentRecord | undefined
    /** Open registration: an originator without a record may start passes. */
    open: boolean
  }
  /** The pass that the request names as its parent, read at the leader; undefined when there is none such. */
  parent?: ParentPass | undefined
  policy: { version: number; document: PassOverPreferences }
  id_window_ms: number
  /** Made anew by the caller; proves parenthood to this pass's own children. */
  return_id: string
  trace_id?: string | undefined
  /** The only person of a local server. */
  local_person?: string | undefined
  /** What the dispatcher counts; absent: no limit binds. */
  counts?: PassCounts | undefined
  /** What it took from the budgets above it; absent: there are none, or it has not asked yet. */
  charged?: ChargeResult | undefined
}

export interface ParentPass {
  journal: JournalState
  control: WorkControl
}

export type Admission =
  /** `keep`: the parts that policy lets through. */
  | { kind: 'admit'; control: WorkControl; slot: Slot; keep: (part: { name: string }) => boolean }
  | { kind: 'hold'; control: WorkControl; expires_ms: number }
  | { kind: 'refuse'; error: PassError }
  /** A limit is set, and what it counts is not known yet. */
  | { kind: 'later' }
