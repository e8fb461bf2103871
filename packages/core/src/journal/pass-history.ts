import type { DecisionFact, EventFact, PassKey, RequestControl, ReturnEnvelope, Step, WorkControl } from '@passover/schemas'

/** Body of a return as it is judged: its output is whole, and large artifacts are what stands for them. */
export type ReturnedBody = Exclude<ReturnEnvelope, { brief: unknown }>

/** Everything that the stream, or its archive, tells of one pass. Times in server ms. */
export interface PassHistory {
  key: PassKey
  requests: readonly { sequence: number; time: number }[]
  /** All steps, those that count for nothing included. */
  steps: readonly Step[]
  /** `body` as decoded, undefined when it cannot be; where it is absent the headers are taken for it. */
  decisions: readonly (DecisionFact & { reason?: string | undefined; body?: unknown })[]
  /** Sequences that a stored violation names: such a decision or settlement does not count, whoever its subject says made it. */
  violated?: readonly number[] | undefined
  /** `body` of those that matter here: started, applied, settled. */
  events: readonly (EventFact & { body?: unknown })[]
  /** Body of the request that the first step answers, where it is known. */
  request?: RequestControl | undefined
  /** Of the request's context, for a pass that was refused. */
  session_id?: string | undefined
  context_bytes?: number | undefined
  /** Control frame of the work step, else of the held step. */
  control?: WorkControl | undefined
  /** Body of the return that counts. */
  returned?: ReturnedBody | undefined
  /** SHA-256 of the stored bytes of the return: what a decision about item `return` or `apply` must name. */
  return_digest?: string | undefined
  /** What its output_schema has against that, where it was applied. */
  schema_faults?: readonly string[] | undefined
  /** Why it was not applied though it should have been. */
  schema_unchecked?: string | undefined
  /** When its originator said that it heard the return. */
  acknowledged_at?: number | undefined
}

/** The history in sequence order. */
export function sorted(history: PassHistory): PassHistory {
  const { requests, steps, decisions, events } = history
  return { ...history, requests: ordered(requests), steps: ordered(steps), decisions: ordered(decisions), events: ordered(events) }
}

function ordered<T extends { sequence: number }>(list: readonly T[]): T[] {
  return [...list].sort((a, b) => a.sequence - b.sequence)
}
