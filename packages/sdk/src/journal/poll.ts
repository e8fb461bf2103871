import type { Bus } from '@passover/bus'
import { deadlineOf, type JournalRules } from '@passover/core'
import { type AnsweredPass, HEADER, type PassKey, passAnswer, SYSTEM } from '@passover/schemas'
import { type JournalView, type ViewRules, viewJournal } from './journal-view.js'

/** A return as it was stored, wherever it was read. */
export interface StoredReturn {
  by: string
  sequence: number
  /** Server ms. */
  time: number
  content_type: string | undefined
  data: Uint8Array
}

/** What the journal of an awaited pass shows to exact gets. */
export type PollResult =
  | { kind: 'return'; found: StoredReturn }
  /** The journal is another request's that used the same id. */
  | { kind: 'other_request' }
  | { kind: 'held' }
  | { kind: 'open'; deadline: number }
  | { kind: 'nothing' }
  /** Something is there that cannot be judged: ask. `returned`: sequence of a stored return, whether it counts or not. */
  | { kind: 'unclear'; returned?: number | undefined }

/** A request that a caller published: sequence and time (server ms) of what was stored. */
export interface PublishedRequest {
  sequence: number
  at: number
}

/** A pass that a caller waits for. */
export interface PolledPass {
  readonly key: PassKey
  /** Of its own request, to be compared. */
  readonly digest: string | undefined
  published?: PublishedRequest | undefined
}

/** Reads a pass's journal by exact gets (rule 6). Throws what reading throws. */
export async function pollJournal(bus: Bus, pass: PolledPass, rules: ViewRules): Promise<PollResult> {
  const steps = await bus.journal.glimpse(pass.key)
  const view = viewJournal(steps, rules)
  if (pass.digest !== undefined && differs(view, pass.digest)) return { kind: 'other_request' }
  if (view.ending.kind === 'return') {
    // A replica that lags may still show the return of an earlier use of the id, which was deleted since.
    return isOfEarlierUse(pass, view.ending.step, rules) ? { kind: 'unclear' } : readReturn(bus, view.ending.step)
  }
  if (view.ending.kind === 'unclear') {
    const returned = steps.find((step) => step.kind === 'return' && !step.untrusted && !isOfEarlierUse(pass, step, rules))
    return { kind: 'unclear', returned: returned?.sequence }
  }
  if (view.work) return { kind: 'open', deadline: deadlineOf(view.work) }
  return view.held ? { kind: 'held' } : { kind: 'nothing' }
}

/** Whether a return is so much older than the request that the id may have been forgotten in between, and used again. */
export function isOfEarlierUse({ published }: Pick<PolledPass, 'published'>, returned: { time: number }, rules: JournalRules): boolean {
  return published !== undefined && published.at - returned.time > rules.id_window_ms
}

function differs(view: JournalView, digest: string): boolean {
  const first = view.held ?? view.work
  if (first) return first.digest !== undefined && first.digest !== digest
  if (view.ending.kind !== 'return') return false
  const { step } = view.ending
  // An expiry answers whoever asks.
  return step.by === SYSTEM && step.code !== 'E005' && step.digest !== undefined && step.digest !== digest
}

async function readReturn(bus: Bus, step: { key: PassKey; by: string; sequence: number }): Promise<PollResult> {
  const stored = await bus.journal.last(bus.subjects.return(step.key, step.by))
  // Meanwhile another one stands there.
  if (stored?.sequence !== step.sequence) return { kind: 'unclear', returned: step.sequence }
  const { sequence, time, data } = stored
  return { kind: 'return', found: { by: step.by, sequence, time, data, content_type: stored.headers.get(HEADER.contentType) } }
}

/** What the audit service says about a pass of ours. */
export type AuditAnswer =
  | { kind: 'unanswered' }
  | { kind: 'unknown' }
  | { kind: 'pass'; pass: AnsweredPass; found: StoredReturn | undefined }

/** Asks the audit service about one of the agent's own passes. Never throws. */
export async function askAudit(bus: Bus, key: PassKey): Promise<AuditAnswer> {
  const answer = await bus.ask({ op: 'pass', ...key }).catch(() => undefined)
  const parsed = passAnswer.safeParse(answer)
  if (!parsed.success) return { kind: 'unanswered' }
  if (!parsed.data.ok) return parsed.data.error.code === 'E041' ? { kind: 'unknown' } : { kind: 'unanswered' }
  const pass = parsed.data.passes.find((one) => one.key.subagent === key.subagent && one.key.originator === key.originator)
  if (!pass) return { kind: 'unknown' }
  const found = pass.return && { ...pass.return, content_type: pass.return.content_type }
  return { kind: 'pass', pass, found }
}
