import type { DecisionFact, EventFact, PassKey, RequestControl, ReturnEnvelope, Step, WorkControl } from '@passover/schemas'

/** Body of a return as the rules read it: a complete output, with placeholders for large artifacts. */
export type ReturnedBody = Exclude<ReturnEnvelope, { brief: unknown }>

/** All stored messages of one pass, from the stream or its archive. Times are server ms. */
export interface PassHistory {
  key: PassKey
  requests: readonly { sequence: number; time: number }[]
  /** All steps, including those that do not count. */
  steps: readonly Step[]
  /** `body` is the decoded body, `undefined` if it cannot be decoded. Without the property, the headers are used instead. */
  decisions: readonly (DecisionFact & { reason?: string | undefined; body?: unknown })[]
  /** Sequences that a stored violation names. Such a decision or settlement does not count, whichever person its subject names. */
  violated?: readonly number[] | undefined
  /** `body` is set for the kinds that the rules read: started, applied, settled. */
  events: readonly (EventFact & { body?: unknown })[]
  /** Body of the request that the first step answers, if known. */
  request?: RequestControl | undefined
  /** Session of the request's context, for a pass that was refused. */
  session_id?: string | undefined
  context_bytes?: number | undefined
  /** Control frame of the work step, or of the held step if there is no work step. */
  control?: WorkControl | undefined
  /** Body of the return that counts. */
  returned?: ReturnedBody | undefined
  /** SHA-256 of the stored bytes of the return. A decision about item `return` or `apply` must name it. */
  return_digest?: string | undefined
  /** Violations of the output_schema, if the schema was applied. */
  schema_faults?: readonly string[] | undefined
  /** Reason why the output_schema was not applied although it should have been. */
  schema_unchecked?: string | undefined
  /** Time at which the originator acknowledged the return. */
  acknowledged_at?: number | undefined
}

/** Returns the history with every list in sequence order. */
export function sorted(history: PassHistory): PassHistory {
  const { requests, steps, decisions, events } = history
  return { ...history, requests: ordered(requests), steps: ordered(steps), decisions: ordered(decisions), events: ordered(events) }
}

function ordered<T extends { sequence: number }>(list: readonly T[]): T[] {
  return [...list].sort((a, b) => a.sequence - b.sequence)
}
