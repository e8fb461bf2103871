import { type PassKey, type RequestFact, type Step, SYSTEM } from '@passover/schemas'
import { type JournalRules, type JournalState, next } from '../journal/state-machine.js'
import { SYSTEM_DEFAULTS } from '../policy/fields.js'
import type { EndVerdict } from './open-pass.js'

/** Number of refusals by newer steps that change nothing, after which the end is published with {@link DueEnd.last_resort}. */
const MAX_REFUSALS = SYSTEM_DEFAULTS.max_attempts + 2

export interface OpenRules extends JournalRules {
  /** Milliseconds a request may stay unanswered before its body is read. */
  look_after_ms: number
  /** Milliseconds after which a due item that did not end is returned again (default 5 s). */
  again_after_ms?: number
}

/** Pass that must be ended now. */
export interface DueEnd extends EndVerdict {
  kind: 'end'
  key: PassKey
  /** Sequence for the guard of the return: the last step seen, counted or not; 0 for a pass that never began. */
  guard: number
  /** Journal as far as the fold has read it; its steps have no nonce, digest or guard. */
  journal: JournalState
  /** Request that the return answers, for a pass that never began. */
  request?: RequestFact
  /** Number of times that the end was refused because of a newer step that leaves the pass due: a fence, or a step that does not count. */
  refusals?: number
  /**
   * Set after too many such refusals, since an agent can publish such steps forever. The guard then is on the exact subject `return.<key>.passover`,
   * which only the system writes, and expects this sequence. If a real return was stored first, it wins in the fold, which ignores a second one (I2).
   */
  last_resort?: number
}

/** Request without an answer. Its body must be read, followed by `learn` or `forget`. */
export interface DueLook {
  kind: 'look'
  request: RequestFact
}

export type Due = DueEnd | DueLook

/** Next action after the publish of an end was not stored and the journal was read from the leader. */
export type DueResolution =
  /** The pass has its return; nothing to do. */
  | { kind: 'ended' }
  /** The expected step is gone: the journal was closed and deleted. Stop. */
  | { kind: 'gone' }
  /** The pass advanced and is no longer due. */
  | { kind: 'wait' }
  /** Still due: publish `due` again, with its `last_resort` if set. `fenced` is true if a newer fence or a step that does not count refused it. */
  | { kind: 'again'; due: DueEnd; fenced: boolean }

/** Returns the journal after the steps found since `due`. `starved` is true if the newest of them changes nothing but the guard. */
export function since(due: DueEnd, found: readonly Step[], rules: JournalRules): { journal: JournalState; starved: boolean } {
  let journal = due.journal
  let starved = false
  for (const step of found) {
    if (step.sequence <= due.journal.last) continue
    const after = next(journal, step, rules)
    journal = after.journal
    starved = step.kind === 'fence' || after.ignored !== undefined
  }
  return { journal, starved }
}

/** Returns the refusal fields of `due`. A return of the system that does not count may already be stored; the guard then names it. */
export function lastResort(refusals: number, found: readonly Step[]): Pick<DueEnd, 'refusals' | 'last_resort'> {
  if (refusals === 0) return {}
  if (refusals < MAX_REFUSALS) return { refusals }
  return { refusals, last_resort: found.findLast(({ kind, by }) => kind === 'return' && by === SYSTEM)?.sequence ?? 0 }
}
