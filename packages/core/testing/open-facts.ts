import type { EventFact, Fact, PassKey, RequestFact, Step } from '@passover/schemas'
import type { DueEnd } from '../src/index.js'
import { OpenPasses } from '../src/index.js'
import { KEY, step, T0, timedId, WINDOW } from './samples.js'

/** Facts of one pass and its child, and what the fold makes of them: for the unit tests of the fold. */

export const OPEN_RULES = { id_window_ms: WINDOW, look_after_ms: 5_000 }
export const CHILD: PassKey = { originator: 'audit', subagent: 'scout', id: timedId(T0, 'child000000000') }

export function fold(...facts: Fact[]): OpenPasses {
  const open = new OpenPasses(OPEN_RULES)
  for (const fact of facts) open.apply(fact)
  return open
}

export function asked(sequence: number, more: Partial<RequestFact> = {}): RequestFact {
  return { type: 'request', originator: 'alice', subagent: 'audit', sequence, time: T0 + sequence, id: KEY.id, ...more }
}

export function cancel(sequence: number, more: Partial<EventFact> = {}): EventFact {
  return { type: 'event', kind: 'cancel', key: KEY, sender: 'alice', sequence, time: T0 + sequence, ...more }
}

export function child(kind: 'held' | 'work', sequence: number, proof: number | undefined, more: Partial<Step> = {}): Step {
  return step(kind, sequence, { key: CHILD, parent: KEY, proof, ...more })
}

export function ends(open: OpenPasses, now: number): [string, string, string, number][] {
  return open
    .due(now)
    .map((due) => (due.kind === 'end' ? [due.key.id, due.code, due.why, due.guard] : ['look', '', '', due.request.sequence]))
}

export function end(open: OpenPasses, now: number): DueEnd {
  const due = open.due(now)
  if (due.length !== 1 || due[0]?.kind !== 'end') throw new Error(`not one end: ${JSON.stringify(due)}`)
  return due[0]
}
