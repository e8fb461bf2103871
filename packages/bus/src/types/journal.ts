import type { PassKey, Step } from '@passover/schemas'
import type { PublishMessage, PublishResult, StoredMessage } from '../wire/messages.js'

/** What to do next about a journal, having seen its steps. */
export type Plan<T> = { done: T } | { publish: PublishMessage; stored: (sequence: number) => T }

export interface AdvanceOptions<T = unknown> {
  /** `leader`: STREAM.MSG.GET, what is not found is not there. `glimpse`: exact direct gets, for agents. */
  read: 'leader' | 'glimpse'
  /** Steps already known; without them the first plan is made blind, from []. */
  known?: Step[]
  /** Give up after so long, its reads included (default 15 s, for a cluster without a leader). */
  deadline_ms?: number
  /**
   * The plan for a journal that is too long to be read (see JournalTooLong.steps, which are given). Without it such an advance
   * ends as `unknown`. A guard on the last step of all may never hold there; one on what only `passover` may write does.
   */
  too_long?: (steps: Step[], tries: number) => Plan<T>
  /** Where a leader read may start: the sequence of the request, say. */
  from?: number
  signal?: AbortSignal
}

export type Advanced<T> = { ok: true; value: T } | { ok: false; outcome: PublishResult }

/** What of a pass was not read, since there is too much of it. */
export type Cut = 'steps' | 'events' | 'progress'

/** The journal of a pass: read it, and publish the step after the one before. */
export interface Journal {
  /** All steps in sequence order as the leader has them. Throws JournalTooLong where they are more than any honest pass has. */
  read(key: PassKey, from?: number): Promise<Step[]>
  /** Steps that exact direct gets find; nothing found is no proof. */
  glimpse(key: PassKey): Promise<Step[]>
  /** One step or event with its body: the last message of an exact subject, by direct get. */
  last(subject: string): Promise<StoredMessage | undefined>
  /** The first message at or after `from` that a filter matches, as the leader has it; the newest one of all. Not for agents. */
  first(filter: string, from: number): Promise<StoredMessage | undefined>
  newest(filter: string): Promise<StoredMessage | undefined>
  /** One stored message by sequence, from the leader. */
  message(sequence: number): Promise<StoredMessage | undefined>
  /**
   * Everything stored of a pass, in order: its request, steps, events, decisions. Leader; not for agents. Of a journal that is too
   * long it has the first steps and the last of every subject, and calls `onCut` with `steps`: those must not be folded as if they were all.
   * With `events`: there are more events of some kind than are read one by one; with `progress`: reports of progress were left out.
   */
  history(key: PassKey, from?: number, onCut?: (what: Cut) => void): Promise<StoredMessage[]>
  /** Deletes one message for good (audit only); true when it is gone, also when it was before. `overwrite`: its bytes on disk, too. */
  deleteMessage(sequence: number, how?: 'overwrite'): Promise<boolean>
  /**
   * Plans, publishes, and where the outcome is not `stored` reads the journal and plans anew, until done.
   * `refused` ends it at once, except `closed`, which is tried again until the deadline. `refused_by`: the last sequence, as the server said that refused.
   */
  advance<T>(
    key: PassKey,
    plan: (steps: Step[], tries: number, refused_by?: number) => Plan<T>,
    options: AdvanceOptions<T>,
  ): Promise<Advanced<T>>
}
