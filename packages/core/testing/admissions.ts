import type { PassError, RequestControl, WorkControl } from '@passover/schemas'
import type { AdmitInput, ParentPass } from '../src/index.js'
import { admit, foldJournal } from '../src/index.js'
import { admitInput, agent, control, KEY, RULES, request, step, T0, timedId } from './samples.js'

/** What admission makes of a request, and a pass below another: for the unit tests of admission. */

export function refusal(more: Partial<AdmitInput>): PassError {
  const admission = admit(admitInput(more))
  if (admission.kind !== 'refuse') throw new Error(`not refused but ${admission.kind}`)
  return admission.error
}

export function held(more: Partial<AdmitInput>): { control: WorkControl; expires_ms: number } {
  const admission = admit(admitInput(more))
  if (admission.kind !== 'hold') throw new Error(`not held but ${admission.kind}`)
  return admission
}

export const PARENT_WORK = step('work', 20, { time: T0 })
export const CHILD_ID = timedId(T0, 'child000000000')

/** The pass alice → audit, open; `change` its control. */
export function parent(change: Partial<WorkControl> = {}, steps = [PARENT_WORK]): ParentPass {
  return { journal: foldJournal(steps, RULES).journal, control: { ...control(), ...change } }
}

/** Audit passes over to scout within alice → audit. */
export function childRequest(more: Partial<RequestControl> = {}): RequestControl {
  const named = { originator: 'alice', subagent: 'audit', id: KEY.id, return_id: 'return-1', proof: 20 }
  return request({ id: CHILD_ID, originating_agent_id: 'audit', subagent_id: 'scout', parent: named, ...more })
}

export function childInput(more: Partial<AdmitInput> = {}): Partial<AdmitInput> {
  const agents = { originator: agent('audit', { originates: 'within_a_pass' }), subagent: agent('scout'), open: false }
  return { request: childRequest(), parent: parent(), agents, now: T0 + 1_000, requested_at: T0 + 900, return_id: 'return-2', ...more }
}
