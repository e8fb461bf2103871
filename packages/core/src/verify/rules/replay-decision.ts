import { type AgentRecord, canonicalJson, type PassOverPreferences, type RequestFact, type WorkControl } from '@passover/schemas'
import { admit } from '../../admission/admit.js'
import type { AdmissionDecision, AdmitInput } from '../../admission/types.js'
import { cut } from '../../text/index.js'
import type { RequestReading } from '../state/recorded-message.js'

export type ParsedRequest = Extract<RequestReading, { ok: true }>['value']

/** A recorded request with the data that its decision depends on. */
export interface ReplayInput {
  fact: RequestFact
  reading: ParsedRequest
  policy: { version: number; document: PassOverPreferences }
  agents: { originator: AgentRecord | undefined; subagent: AgentRecord | undefined }
  parent: AdmitInput['parent']
  id_window_ms: number
  /** Time of the decision, server ms. */
  now: number
  return_id: string
  counts?: AdmitInput['counts']
}

/** Repeats the decision about a recorded request. Counts of limits and remaining budgets are taken as recorded: neither limits anything here. */
export function replayDecision(given: ReplayInput): AdmissionDecision {
  const { fact, reading, policy, agents, parent, id_window_ms, now, return_id, counts } = given
  const { request, parts, digest, session_id, unnamed_session, reply_type } = reading
  return admit({
    request,
    subject: { originator: fact.originator, subagent: fact.subagent },
    request_sequence: fact.sequence,
    requested_at: fact.time,
    now,
    parts,
    digest,
    session_id,
    unnamed_session,
    reply_type,
    agents: { ...agents, open: true },
    parent,
    policy,
    id_window_ms,
    return_id,
    counts,
  })
}

/** Describes a decision about a request in words. */
export function outcomeText(admission: AdmissionDecision): string {
  switch (admission.kind) {
    case 'admit':
      return `admitted (${admission.control.priority})`
    case 'hold':
      return 'held for a person'
    case 'later':
      return 'unknown'
    case 'refuse':
      return `${admission.error.code}: ${admission.error.message}`
  }
}

/** Fields that depend on the clock, the budget ledger, a dispatcher's settings or chance. They are checked against limits, or are irrelevant. */
const OWN: ReadonlySet<string> = new Set(['return_id', 'trace_id', 'timeout_ms', 'budget', 'request_sequence', 'proof', 'local_person'])

/** Describes the first field of a control frame that differs from the repeated decision, or returns `undefined` if they agree. */
export function controlDiffers(recorded: WorkControl, again: WorkControl): string | undefined {
  const names = new Set([...Object.keys(again), ...Object.keys(recorded)]) as Set<keyof WorkControl>
  for (const name of names) {
    if (OWN.has(name) || isSame(recorded[name], again[name])) continue
    const inner = name === 'policy' || name === 'rights' ? innerDifference(recorded[name], again[name]) : undefined
    return inner ? `${name}.${inner}` : `${name} is ${shown(recorded[name])}, but policy and request give ${shown(again[name])}`
  }
  return timeoutDiffers(recorded, again) ?? budgetDiffers(recorded, again)
}

function innerDifference(recorded: unknown, again: unknown): string | undefined {
  const one = recorded as Record<string, unknown>
  const other = again as Record<string, unknown>
  for (const name of new Set([...Object.keys(other), ...Object.keys(one)])) {
    if (!isSame(one[name], other[name])) return `${name} is ${shown(one[name])}, but policy and request give ${shown(other[name])}`
  }
  return undefined
}

/**
 * Compares the timeouts. A child's timeout is limited by the remaining time of its parent, which kept running until the decision; a budget may have
 * limited it further.
 */
function timeoutDiffers(recorded: WorkControl, again: WorkControl): string | undefined {
  const bounded = recorded.parent !== undefined || recorded.budget !== undefined || again.budget !== undefined
  const fine = bounded ? recorded.timeout_ms <= again.timeout_ms : recorded.timeout_ms === again.timeout_ms
  return fine ? undefined : `timeout_ms is ${recorded.timeout_ms}, but policy and request give ${again.timeout_ms}`
}

function budgetDiffers({ budget }: WorkControl, again: WorkControl): string | undefined {
  for (const name of ['passes', 'tokens', 'time_ms'] as const) {
    const granted = budget?.[name] ?? Number.POSITIVE_INFINITY
    const allowed = again.budget?.[name] ?? Number.POSITIVE_INFINITY
    if (granted > allowed) return `budget.${name} is ${shown(budget?.[name])}, but at most ${allowed} may be granted`
  }
  return undefined
}

export function isSame(one: unknown, other: unknown): boolean {
  if (one === other) return true
  if (one === undefined || other === undefined) return false
  return canonicalJson(plain(one)) === canonicalJson(plain(other))
}

/** Returns the value without undefined fields. */
function plain(value: unknown): unknown {
  return typeof value === 'object' && value !== null ? JSON.parse(JSON.stringify(value)) : value
}

const MAX_SHOWN = 120

function shown(value: unknown): string {
  if (value === undefined) return 'absent'
  const text = JSON.stringify(value) ?? String(value)
  return cut(text, MAX_SHOWN)
}
