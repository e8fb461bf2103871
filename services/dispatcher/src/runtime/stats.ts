/** Counters of a dispatcher since its start, and the timekeeper's gauges `open` and `position`. */
export interface Stats {
  admitted: number
  held: number
  refused: number
  /** Requests answered under `bad-<sequence>`, or refused because they are malformed. */
  bad: number
  /** Requests whose journal had already begun. */
  repeated: number
  /** Requests admitted out of turn, before the durable consumer delivered them. */
  out_of_turn: number
  decided: number
  /** Deliveries returned to the server for redelivery. */
  retried: number
  /** Terminal returns published by the timekeeper. */
  ended: number
  /** Number of open passes and unanswered requests in the timekeeper's fold. */
  open: number
  /** Stream sequence up to which the timekeeper has read. */
  position: number
}

export function noStats(): Stats {
  return { admitted: 0, held: 0, refused: 0, bad: 0, repeated: 0, out_of_turn: 0, decided: 0, retried: 0, ended: 0, open: 0, position: 0 }
}
