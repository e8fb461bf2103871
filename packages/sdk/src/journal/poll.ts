import type { Bus } from '@passover/bus'
import { deadlineOf, type JournalRules } from '@passover/core'
import { type AnsweredPass, HEADER, type PassKey, passAnswer, SYSTEM } from '@passover/schemas'
import { type JournalView, type ViewRules, viewJournal } from './journal-view.js'

/** A stored return, from the stream or the audit service. */
export interface StoredReturn {
  by: string
  sequence: number
  /** Stored time, in server ms. */
  time: number
  content_type: string | undefined
  data: Uint8Array
}

/** State of the journal of an awaited pass, as read with exact gets. */
export type PollResult =
  | { kind: 'return'; storedReturn: StoredReturn }
  /** The journal belongs to another request with the same id. */
  | { kind: 'other_request' }
  | { kind: 'held' }
  | { kind: 'open'; deadline: number }
  | { kind: 'nothing' }
  /** The journal has steps that cannot be judged without the audit service. `returned` is the sequence of a stored return, valid or not. */
  | { kind: 'unclear'; returned?: number | undefined }

/** Sequence and time (server ms) of a request that a caller published. */
export interface PublishedRequest {
  sequence: number
  at: number
}

/** A pass that a caller awaits. */
export interface PolledPass {
  readonly key: PassKey
  /** Digest of the caller's own request, for comparison. */
  readonly digest: string | undefined
  published?: PublishedRequest | undefined
}

/** Reads the journal of a pass by exact gets (rule 6). Throws the errors of reading. */
export async function pollJournal(bus: Bus, pass: PolledPass, rules: ViewRules): Promise<PollResult> {
  const steps = await bus.journal.glimpse(pass.key)
  const view = viewJournal(steps, rules)
  if (pass.digest !== undefined && differs(view, pass.digest)) return { kind: 'other_request' }
  if (view.ending.kind === 'return') {
    // A lagging replica may still show the return of an earlier use of the id, which has been deleted.
    return isOfEarlierUse(pass, view.ending.step, rules) ? { kind: 'unclear' } : readReturn(bus, view.ending.step)
  }
  if (view.ending.kind === 'unclear') {
    const returned = steps.find((step) => step.kind === 'return' && !step.untrusted && !isOfEarlierUse(pass, step, rules))
    return { kind: 'unclear', returned: returned?.sequence }
  }
  if (view.work) return { kind: 'open', deadline: deadlineOf(view.work) }
  return view.held ? { kind: 'held' } : { kind: 'nothing' }
}

/** Returns true if a return is so much older than the request that the id may have expired in between and been used again. */
export function isOfEarlierUse({ published }: Pick<PolledPass, 'published'>, returned: { time: number }, rules: JournalRules): boolean {
  return published !== undefined && published.at - returned.time > rules.id_window_ms
}

function differs(view: JournalView, digest: string): boolean {
  const first = view.held ?? view.work
  if (first) return first.digest !== undefined && first.digest !== digest
  if (view.ending.kind !== 'return') return false
  const { step } = view.ending
  // An expiry answers every request with the id.
  return step.by === SYSTEM && step.code !== 'E005' && step.digest !== undefined && step.digest !== digest
}

async function readReturn(bus: Bus, step: { key: PassKey; by: string; sequence: number }): Promise<PollResult> {
  const stored = await bus.journal.last(bus.subjects.return(step.key, step.by))
  // Another return was stored on the subject meanwhile.
  if (stored?.sequence !== step.sequence) return { kind: 'unclear', returned: step.sequence }
  const { sequence, time, data } = stored
  return { kind: 'return', storedReturn: { by: step.by, sequence, time, data, content_type: stored.headers.get(HEADER.contentType) } }
}

/** Answer of the audit service about a pass of this agent. */
export type AuditAnswer =
  | { kind: 'unanswered' }
  | { kind: 'unknown' }
  | { kind: 'pass'; pass: AnsweredPass; storedReturn: StoredReturn | undefined }

/** Asks the audit service about one of the agent's own passes. Never throws. */
export async function askAudit(bus: Bus, key: PassKey): Promise<AuditAnswer> {
  const answer = await bus.ask({ op: 'pass', ...key }).catch(() => undefined)
  const parsed = passAnswer.safeParse(answer)
  if (!parsed.success) return { kind: 'unanswered' }
  if (!parsed.data.ok) return parsed.data.error.code === 'E041' ? { kind: 'unknown' } : { kind: 'unanswered' }
  const pass = parsed.data.passes.find((one) => one.key.subagent === key.subagent && one.key.originator === key.originator)
  if (!pass) return { kind: 'unknown' }
  const storedReturn = pass.return && { ...pass.return, content_type: pass.return.content_type }
  return { kind: 'pass', pass, storedReturn }
}
