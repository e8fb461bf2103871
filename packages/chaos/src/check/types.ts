/** A stored message, as far as the judge looks at it. */
export interface StoredMessage {
  subject: string
  sequence: number
  time: number
  header(name: string): string | undefined
  /** All of them, for who keeps the history; left out where nobody does. */
  headers?: () => Record<string, string[]>
  data: Uint8Array
}

export interface CheckerOptions {
  /** Default PASSOVER. */
  stream?: string
  /** Namespace in front of all subjects. */
  prefix?: string
  /** How much later than its deadline a pass may end (P2), ms. Default 1,000. */
  bound_ms?: number
  /** How much later than its parent, or its parent's attempt, a child may end, ms. Default as `bound_ms`. */
  cascade_ms?: number
  /** When the promise's condition did not hold (no server, no timekeeper), server ms: what fell due then may end `recovery_ms` after it. */
  troubles?: readonly Trouble[]
  /** Default 5,000. */
  recovery_ms?: number
  /** How long after its last message a segment may wait to be sealed, ms. Default 30,000. */
  seal_ms?: number
  /** When no audit was up, server ms. */
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
  /** Everything that breaks a promise, in words; empty: all is well. */
  problems: string[]
  /** The same, each with the promise that it breaks. */
  violations: Violation[]
  /** Steps that do not count: dishonest or stale ones that a reader must ignore. No problem by themselves. */
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
  /** Returns that count: one is right. */
  returns: number
  ended?: { sequence: number; time: number; by: string; code: string | undefined; status: string | undefined; attempt: number }
  /** Stored time of its first step. */
  begun?: number
  /** When it must have ended, server ms. */
  deadline?: number
  parent?: { key: string; proof: number }
  /** Sequence and time at which each later attempt began. */
  fences: { sequence: number; time: number }[]
}
