import type { PassKey, Step } from '@passover/schemas'
import type { PublishMessage, PublishResult, StoredMessage } from '../wire/messages.js'

/** Next action on a journal, decided from its steps. */
export type Plan<T> = { done: T } | { publish: PublishMessage; stored: (sequence: number) => T }

export interface AdvanceOptions<T = unknown> {
  /** `leader`: reads by STREAM.MSG.GET; a step that is not found does not exist. `glimpse`: exact direct gets, for agents. */
  read: 'leader' | 'glimpse'
  /** Steps already known. Without them the first plan is made from [] without reading. */
  known?: Step[]
  /** Milliseconds after which it gives up, reads included. Default 15,000, enough for a leader election. */
  deadline_ms?: number
  /**
   * Plans for a journal that is too long to be read, from the incomplete steps of {@link JournalTooLong}. Without it such an advance ends as
   * `unknown`. A guard on the last step of the whole journal may never hold there; a guard on a subject that only `passover` writes does.
   */
  too_long?: (steps: Step[], tries: number) => Plan<T>
  /** First sequence of a leader read, for example that of the request. */
  from?: number
  signal?: AbortSignal
}

export type Advanced<T> = { ok: true; value: T } | { ok: false; outcome: PublishResult }

/** Kind of messages of a pass that were not read because there are too many. */
export type Cut = 'steps' | 'events' | 'progress'

/** Access to the messages of the stream: reads and deletes single messages, and reads and advances the journals of passes. */
export interface Journal {
  /** Reads all steps in sequence order from the leader. Throws JournalTooLong if there are more than a correct pass can have. */
  read(key: PassKey, from?: number): Promise<Step[]>
  /** Reads the steps that exact direct gets find. A missing step is no proof that it does not exist. */
  glimpse(key: PassKey): Promise<Step[]>
  /** Reads the last message of an exact subject by direct get: one step or event with its body. */
  last(subject: string): Promise<StoredMessage | undefined>
  /** Reads the first message at or after `from` that matches the filter, from the leader; `newest` reads the last match. Not for agents. */
  first(filter: string, from: number): Promise<StoredMessage | undefined>
  newest(filter: string): Promise<StoredMessage | undefined>
  /** Reads one stored message by sequence, from the leader. */
  message(sequence: number): Promise<StoredMessage | undefined>
  /**
   * Reads everything stored about a pass, in order: its request, steps, events and decisions. From the leader; not for agents. For a journal that is
   * too long it returns the first steps and the last of every subject, and calls `onCut` with `steps`: these must not be folded into a state.
   * `events`: some kind has more events than are read one by one. `progress`: progress reports were left out.
   */
  history(key: PassKey, from?: number, onCut?: (what: Cut) => void): Promise<StoredMessage[]>
  /**
   * Deletes one message permanently (audit service only). Returns true if it is gone, also if it was before. `overwrite` overwrites its bytes on
   * disk.
   */
  deleteMessage(sequence: number, how?: 'overwrite'): Promise<boolean>
  /**
   * Plans and publishes; if the outcome is not `stored`, reads the journal and plans again, until done. A `refused` outcome ends it at once, except
   * `closed`, which is retried until the deadline. `refused_by` is the last sequence that the server reported when it rejected the guard.
   */
  advance<T>(
    key: PassKey,
    plan: (steps: Step[], tries: number, refused_by?: number) => Plan<T>,
    options: AdvanceOptions<T>,
  ): Promise<Advanced<T>>
}
