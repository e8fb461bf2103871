import { type PassKey, type RequestFact, type Step, SYSTEM } from '@passover/schemas'
import { type JournalRules, type JournalState, next } from '../journal/state-machine.js'
import { SYSTEM_DEFAULTS } from '../policy/fields.js'
import type { EndVerdict } from './open-pass.js'

/** Refusals by newer steps that change nothing, after which the end no longer waits for its turn in the journal. */
const MAX_REFUSALS = SYSTEM_DEFAULTS.max_attempts + 2

export interface OpenRules extends JournalRules {
  /** How long a request may go unanswered before it is read whole. */
  look_after_ms: number
  /** What was given out as due and did not end is given out again after this long (default 5 s). */
  again_after_ms?: number
}

/** A pass that must be ended now. */
export interface DueEnd extends EndVerdict {
  kind: 'end'
  key: PassKey
  /** What the return's guard expects: the last step seen, counted or not; 0 for a pass that never began. */
  guard: number
  /** As far as the fold has read; steps without nonce, digest and guard. */
  journal: JournalState
  /** For a pass that never began: the request that its return answers. */
  request?: RequestFact
  /** Times that it was refused by a newer step that leaves it due: a fence, or a step that counts for nothing. */
  refusals?: number
  /**
   * Set once it was refused so too often (an agent can publish such steps for ever): guard on the exact subject
   * `return.<key>.passover` instead, which only the system writes, expecting this sequence. A real return that came
   * first wins by the fold, which ignores a second one (I2).
   */
  last_resort?: number
}

/** A request that nobody answered: to be read whole, then `learn` or `forget`. */
export interface DueLook {
  kind: 'look'
  request: RequestFact
}

export type Due = DueEnd | DueLook

/** What to do after the end's publish was not stored and the journal was read at the leader. */
export type DueResolution =
  /** It has its return: nothing to do. */
  | { kind: 'ended' }
  /** The step that was expected is gone: the journal was closed and deleted. Stop. */
  | { kind: 'gone' }
  /** It went on and is not due any more. */
  | { kind: 'wait' }
  /** Still due, as `due` says, by its `last_resort` where it has one. `fenced`: refused by a newer fence or a step that counts for nothing. */
  | { kind: 'again'; due: DueEnd; fenced: boolean }

/** The journal with what was found since `due`, and whether the newest of it leaves things as they are but for the guard. */
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

/** What `due` says of its refusals; a return of the system that counts for nothing may already stand there. */
export function lastResort(refusals: number, found: readonly Step[]): Pick<DueEnd, 'refusals' | 'last_resort'> {
  if (refusals === 0) return {}
  if (refusals < MAX_REFUSALS) return { refusals }
  return { refusals, last_resort: found.findLast(({ kind, by }) => kind === 'return' && by === SYSTEM)?.sequence ?? 0 }
}
