import type { PassError, PassKey, PassOverPreferences, WorkControl } from '@passover/schemas'
import { placeOfRule } from '../admission/refusal-rule.js'
import type { AdmissionDecision } from '../admission/types.js'
import type { PassCounts } from '../limits/limit-counters.js'
import type { Level } from '../policy/base-policy.js'
import { POLICY_FIELDS, type PolicyFieldName } from '../policy/fields.js'
import { resolvePolicy } from '../policy/resolve-policy.js'
import { type FirstStep, isOfTheMoment, parentNamed } from './rules/first-step.js'
import { isSame, type ParsedRequest, replayDecision } from './rules/replay-decision.js'
import { errorIn } from './state/message-bodies.js'

/**
 * A field that another policy would have set differently, and the place in that policy. If one of them refuses, its verdict is given instead of a
 * value.
 */
export interface FieldDifference {
  field: string
  before: unknown
  after: unknown
  level?: Level | undefined
  path?: string | undefined
}

/** Decision of another policy about a recorded request. */
export interface ChangedDecision {
  sequence: number
  key: PassKey
  /** `admitted`, `held`, or the code of a refusal. */
  before: string
  after: string
  /** Reason in words, if the request would be refused. */
  why?: string
  differences: FieldDifference[]
}

/** `taken` means that a limit, a clock or a person decided, so the decision cannot be repeated with another policy. */
export type WhatIf = { kind: 'same' } | { kind: 'taken' } | { kind: 'otherwise'; otherwise: ChangedDecision }

const PLAIN_REFUSALS: ReadonlySet<string> = new Set(['E001', 'E002', 'E003', 'E004', 'E012', 'E013'])

/** Decides about a recorded request by another policy. Registry, parent and everything else are as recorded. */
export function whatIf(begin: FirstStep, document: PassOverPreferences, counts?: PassCounts): WhatIf {
  const { step, asked, pass, recorded } = begin
  const reading = asked.recorded.reading()
  const error = step.kind === 'return' ? errorIn(recorded) : undefined
  if (!reading.ok || begin.parent_unseen || (step.kind === 'return' && (!error || !isByRule(error)))) return { kind: 'taken' }
  const [originator] = begin.versions.records(step.key.originator, step.time)
  const [subagent] = begin.versions.records(step.key.subagent, step.time)
  const again = replayDecision({
    fact: asked.fact,
    reading: reading.value,
    policy: { version: 0, document },
    agents: { originator, subagent },
    parent: parentNamed(begin, reading.value),
    id_window_ms: begin.id_window_ms,
    now: asked.fact.time,
    return_id: pass.control?.return_id ?? '',
    counts,
  })
  if (again.kind === 'later') return { kind: 'taken' }
  const before = step.kind === 'return' ? (error?.code ?? 'refused') : step.kind === 'held' ? 'held' : 'admitted'
  const after = nameOf(again)
  const differences = differencesOf({ begin, document, reading: reading.value }, error, again)
  if (before === after && differences.length === 0) return { kind: 'same' }
  const why = again.kind === 'refuse' ? { why: again.error.message } : {}
  return { kind: 'otherwise', otherwise: { sequence: step.sequence, key: step.key, before, after, ...why, differences } }
}

function isByRule(error: PassError): boolean {
  return PLAIN_REFUSALS.has(error.code) && !isOfTheMoment(error)
}

function nameOf(admission: Exclude<AdmissionDecision, { kind: 'later' }>): string {
  if (admission.kind === 'refuse') return admission.error.code
  return admission.kind === 'hold' ? 'held' : 'admitted'
}

interface Ground {
  begin: FirstStep
  document: PassOverPreferences
  reading: ParsedRequest
}

function differencesOf(ground: Ground, error: PassError | undefined, again: AdmissionDecision): FieldDifference[] {
  const { control } = ground.begin.pass
  if (again.kind === 'refuse') return error?.code === again.error.code ? [] : refusedBy(again.error, control)
  if (again.kind === 'later') return []
  if (!control) return error ? [{ field: fieldOf(error), before: error.code, after: nameOf(again), path: pathOf(error) }] : []
  const sources = sourcesOf(ground)
  const fields = Object.keys(POLICY_FIELDS) as PolicyFieldName[]
  const found = fields
    .filter((field) => !isSame(control.policy[field], again.control.policy[field]))
    .map((field) => located(ground, { field, before: control.policy[field], after: again.control.policy[field], level: sources?.[field] }))
  return found
}

function refusedBy(error: PassError, control: WorkControl | undefined): FieldDifference[] {
  const field = fieldOf(error)
  const before = control?.policy[field as keyof WorkControl['policy']]
  return [{ field, before, after: error.code, path: pathOf(error) }]
}

const FIELD_OF: Record<string, PolicyFieldName> = {
  E001: 'can_receive_passes',
  E002: 'max_chain_depth',
  E004: 'enabled',
  E010: 'timeout_ms',
  E012: 'max_context_size_bytes',
}

function fieldOf({ code, details }: PassError): string {
  return typeof details?.field === 'string' ? details.field : (FIELD_OF[code] ?? code)
}

function pathOf({ details }: PassError): string | undefined {
  return typeof details?.policy_path === 'string' ? details.policy_path : undefined
}

function sourcesOf({ begin, document, reading }: Ground): Record<PolicyFieldName, Level> | undefined {
  const { override, timeout_ms, auto_apply_on_success } = reading.request
  const { originator, subagent } = begin.step.key
  const [agent] = begin.versions.records(subagent, begin.step.time)
  const resolved = resolvePolicy(document, {
    from: originator,
    to: subagent,
    override,
    request: { timeout_ms, auto_apply_on_success },
    agent,
  })
  return resolved.ok ? (resolved.value.sources as Record<PolicyFieldName, Level>) : undefined
}

function located({ begin }: Ground, found: FieldDifference): FieldDifference {
  const path = found.level && placeOfRule(found.field as PolicyFieldName, found.level, begin.step.key)
  return path === undefined ? found : { ...found, path }
}
