import type { PassOverPreferences } from '@passover/schemas'
import { SYSTEM_DEFAULTS } from '../fields.js'
import type { PolicyFault } from '../parse-policy.js'
import { conflict, defaultsOf, type Entry, firstSaid, pairEntries, said, subagentEntries } from './conflict.js'

/** Reports conflicts that do not depend on a pair: within one level, or between a level and the global defaults. */
export function levelRules(document: PassOverPreferences): PolicyFault[] {
  const defaults = defaultsOf(document)
  const entries: Entry<object>[] = [defaults, ...pairEntries(document), ...subagentEntries(document)]
  return [
    ...entries.flatMap((entry) => overMaximum(entry, defaults)),
    ...entries.flatMap((entry) => neverAppliedByItself(entry)),
    ...entries.flatMap((entry) => noTools(entry)),
    ...leases(document, defaults),
    ...subagentEntries(document).flatMap(neverChecked),
    ...nobodyMayDecide(defaults, [defaults]),
  ]
}

/** Reports timeouts above max_timeout_ms, which would be shortened silently. */
function overMaximum(entry: Entry<object>, defaults: Entry<object>): PolicyFault[] {
  const second = said(defaults, 'max_timeout_ms')
  if (!second) return []
  return (['timeout_ms', 'max_compute_time_ms'] as const).flatMap((field) => {
    const first = said(entry, field)
    if (!first || Number(first.value) <= Number(second.value)) return []
    return [
      conflict({
        severity: 'error',
        first,
        second,
        why: 'nothing exceeds the maximum',
        suggestion: `lower ${field}, or raise max_timeout_ms`,
      }),
    ]
  })
}

/** Reports auto_apply together with a required approval: the approval takes precedence, so nothing is applied automatically. */
function neverAppliedByItself(entry: Entry<object>): PolicyFault[] {
  const first = said(entry, 'auto_apply')
  const second = said(entry, 'require_user_approval') ?? said(entry, 'require_confirmation')
  if (first?.value !== true || second?.value !== true) return []
  const why = 'approval takes precedence, so no change is applied automatically'
  return [conflict({ severity: 'warning', first, second, why, suggestion: 'remove one of them' })]
}

function noTools(entry: Entry<object>): PolicyFault[] {
  const first = said(entry, 'tools')
  const second = said(entry, 'can_run_tools')
  if (!Array.isArray(first?.value) || first.value.length === 0 || second?.value !== false) return []
  const why = 'no tool may be run, so this list has no effect'
  return [conflict({ severity: 'warning', first, second, why, suggestion: 'remove tools, or set can_run_tools to true' })]
}

/** Reports a lease that is longer than the deadline: a lost worker is only noticed after the pass has ended, so there is no further attempt. */
function leases(document: PassOverPreferences, defaults: Entry<object>): PolicyFault[] {
  return [defaults, ...subagentEntries(document)].flatMap((entry) => {
    const first = said(entry, 'lease_ms')
    if (!first) return []
    const attempts = firstSaid('max_attempts', [entry, defaults], SYSTEM_DEFAULTS.max_attempts)
    const second = firstSaid('timeout_ms', [entry, defaults], SYSTEM_DEFAULTS.timeout_ms)
    if (attempts.value === 1 || Number(first.value) < Number(second.value)) return []
    const why = 'a lost worker is detected only at the deadline, too late for another attempt'
    return [conflict({ severity: 'error', first, second, why, suggestion: 'set a lease shorter than the timeout, or max_attempts to 1' })]
  })
}

function neverChecked(entry: Entry<object>): PolicyFault[] {
  const first = said(entry, 'output_schema')
  const second = said(entry, 'validate_output')
  if (!first || second?.value !== false) return []
  return [conflict({ severity: 'warning', first, second, why: 'the schema is never used', suggestion: 'remove one of them' })]
}

/** Reports a required decision without anyone who may make it: the pass could only expire. */
export function nobodyMayDecide(owner: Entry<object>, levels: (Entry<object> | undefined)[]): PolicyFault[] {
  const first = said(owner, 'approvers')
  if (!Array.isArray(first?.value) || first.value.length > 0) return []
  const hold = firstSaid('hold_before_dispatch', levels, SYSTEM_DEFAULTS.hold_before_dispatch)
  const system = firstSaid('require_user_approval', levels, SYSTEM_DEFAULTS.require_user_approval)
  const globally = levels.map((level) => said(level, 'require_confirmation')).find((place) => place !== undefined)
  const approval = system.level === 'system' ? (globally ?? system) : system
  const second = hold.value === true ? hold : approval
  if (second.value !== true) return []
  const suggestion = 'name a person in approvers, or remove approvers so that every person may decide'
  return [conflict({ severity: 'error', first, second, why: 'an approval is required, but nobody may give it', suggestion })]
}
