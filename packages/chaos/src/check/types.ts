/** The fields of a stored message that the judge reads. */
export interface StoredMessage {
  subject: string
  sequence: number
  time: number
  header(name: string): string | undefined
  /** Returns all headers. Absent if the history is not kept. */
  headers?: () => Record<string, string[]>
  data: Uint8Array
}

export interface CheckerOptions {
  /** Name of the stream. Default PASSOVER. */
  stream?: string
  /** Prefix of all subjects. */
  prefix?: string
  /** Milliseconds by which a pass may end after its deadline (P2). Default 1,000. */
  bound_ms?: number
  /** Milliseconds by which a child may end after its parent, or after its parent's attempt. Default is `bound_ms`. */
  cascade_ms?: number
  /**
   * Times (server ms) at which the condition of the promise did not hold, because no server or no timekeeper was running. Whatever was due then may
   * end up to `recovery_ms` afterwards.
   */
  troubles?: readonly Trouble[]
  /** Milliseconds allowed for recovery after such a time. Default 5,000. */
  recovery_ms?: number
  /** Milliseconds after its last message within which a segment must be sealed. Default 30,000. */
  seal_ms?: number
  /** Times (server ms) at which no audit was running. */
  audit_away?: readonly Trouble[]
  id_window_ms?: number
}

export interface Trouble {
  from: number
  to: number
}

/** The promises (docs/architecture/invariants.md#promises). */
export type PromiseName = 'P1' | 'P2' | 'P3' | 'P4' | 'P5'

export interface Violation {
  promise: PromiseName
  what: string
}

export interface Judgement {
  passes: Map<string, PassFound>
  /** Descriptions of all violations; empty if there are none. */
  problems: string[]
  /** The same violations, each with the promise that it breaks. */
  violations: Violation[]
  /** Steps that do not count: forged or outdated ones that readers must ignore. They are not violations. */
  ignored: string[]
  totals: {
    messages: number
    requests: number
    passes: number
    ended: number
    open: number
    fences: number
    by_code: Record<string, number>
  }
}

export interface PassFound {
  key: string
  requests: number[]
  held: number
  works: number
  attempts: number
  /** Number of returns that count; exactly one is correct. */
  returns: number
  ended?: { sequence: number; time: number; by: string; code: string | undefined; status: string | undefined; attempt: number }
  /** Stored time (ms) of its first step. */
  begun?: number
  /** Server time in milliseconds by which it must have ended. */
  deadline?: number
  parent?: { key: string; proof: number }
  /** Sequence and time of each later attempt's fence. */
  fences: { sequence: number; time: number }[]
}
