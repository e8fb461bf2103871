/** What a dispatcher has done since it started; counters only grow. */
export interface Stats {
  admitted: number
  held: number
  refused: number
  /** Answered as `bad-<sequence>`. */
  bad: number
  /** Requests whose journal had already begun. */
  repeated: number
  /** Requests admitted out of their turn, before the durable delivered them. */
  out_of_turn: number
  decided: number
  /** Given back to be delivered again. */
  retried: number
  /** Terminal returns published by the timekeeper. */
  ended: number
  /** Open passes and unanswered requests in the timekeeper's fold. */
  open: number
  /** Sequence that the timekeeper has read up to. */
  position: number
}

export function noStats(): Stats {
  return { admitted: 0, held: 0, refused: 0, bad: 0, repeated: 0, out_of_turn: 0, decided: 0, retried: 0, ended: 0, open: 0, position: 0 }
}
