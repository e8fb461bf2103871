import type { Budget, RequestControl, Rights } from '@passover/schemas'
import { naivePolicy, type PolicyCase } from './naive-policy.js'

/**
 * Admission written a second time, by hand, from facts as plain as possible; no code of core is in here.
 * Of several faults any one may be told, so all of them are named.
 */

export interface NaiveParent {
  /** Whether a pass of that name is stored, and what of it the request names wrongly. */
  known: boolean
  state: 'open' | 'held' | 'done'
  right_return_id: boolean
  right_proof: boolean
  right_subagent: boolean
  /** Time until its deadline. */
  rest_ms: number
  ancestors: string[]
  max_chain_depth: number
  rights: Rights
  budget?: Budget | undefined
}

export interface Counted {
  minute: number
  /** Held ones too. */
  active: number
  held: number
}

export interface NaiveCase {
  from: string
  to: string
  policy: PolicyCase
  /** What the body says differs from the subject. */
  forged: boolean
  /** Age of the id's time, or of the request where the id has none. */
  id_age_ms: number
  timed_id: boolean
  waited_ms: number
  open_registration: boolean
  originates?: 'always' | 'within_a_pass' | 'never' | undefined
  /** Undefined: there is no such agent. */
  is_subagent?: boolean | undefined
  parent?: NaiveParent | undefined
  constraints: string[]
  budget?: Budget | undefined
  priority?: RequestControl['priority'] | undefined
  sizes: Record<string, number>
  unnamed_session: true | undefined
  /** `held`: passes of the originator. */
  counts: { pair: Counted; subagent: Counted; session: number; tree: number; held: number }
}

/** `E013 auto_apply`, `E014 pair.max_active`: a code and, where a field is at fault, which. */
export type Verdict =
  | { faults: Set<string> }
  | { kind: 'admit' | 'hold'; expires_ms?: number; control: Record<string, unknown>; kept: string[] }

const WINDOW_MS = 3_600_000

export function naiveAdmission(one: NaiveCase): Verdict {
  const faults = new Set([...requestFaults(one), ...parentFaults(one)])
  const chain = [...(one.parent?.ancestors ?? []), one.from, one.to]
  if (chain.some((name, n) => chain.indexOf(name) < n)) faults.add('E003')
  if (!one.is_subagent) faults.add('E001')
  const policy = naivePolicy(one.policy)
  if ('refused' in policy) {
    for (const field of policy.refused) faults.add(`E013 ${field}`)
    return { faults }
  }
  const p = policy.effective
  const max_chain_depth = Math.min(p.max_chain_depth as number, one.parent?.max_chain_depth ?? 1_000)
  const chain_depth = chain.length - 1
  if (chain_depth > max_chain_depth) faults.add('E002')
  if (!p.enabled) faults.add('E004')
  if (!p.can_receive_passes) faults.add('E001')
  if (one.waited_ms >= (p.timeout_ms as number)) faults.add('E010')
  const kept = Object.keys(one.sizes).filter(
    (name) => !(name === 'messages' && !p.pass_context) && !(name.startsWith('file:') && !p.pass_files),
  )
  const bytes = kept.reduce((sum, name) => sum + (one.sizes[name] ?? 0), 0)
  if (bytes > (p.max_context_size_bytes as number)) faults.add('E012')
  const budget = budgetOf(one, p.budget as Budget | undefined)
  if (budget.tokens !== undefined && bytes / 4 > budget.tokens) faults.add('E012')
  if (budget.passes !== undefined && budget.passes < 0) faults.add('E014 budget.passes')
  if (budget.time_ms === 0) faults.add('E014 budget.time_ms')
  for (const fault of limitFaults(one, p.max_passes_per_session as number)) faults.add(fault)
  if (one.policy.pair?.max_active === undefined && one.counts.pair.active >= (p.max_open as number)) faults.add('E014 pair.max_open')
  if (p.hold_before_dispatch && one.counts.held >= (p.max_held as number)) faults.add('E014 originator.max_held')
  if (faults.size > 0) return { faults }

  const rest = one.parent?.rest_ms ?? Number.POSITIVE_INFINITY
  const control = {
    chain_depth,
    max_chain_depth,
    ancestors: chain.slice(0, -1),
    timeout_ms: Math.min(p.timeout_ms as number, rest, budget.time_ms ?? Number.POSITIVE_INFINITY),
    rights: rightsOf(one, p),
    budget: Object.keys(budget).length > 0 ? budget : undefined,
    policy: p,
    context_bytes: bytes,
    priority: one.priority ?? 'medium',
    auto_apply_on_success: one.policy.override?.auto_apply ?? one.policy.own.auto_apply_on_success ?? false,
    max_attempts: p.max_attempts,
    lease_ms: p.lease_ms,
  }
  if (!p.hold_before_dispatch) return { kind: 'admit', control, kept }
  return { kind: 'hold', expires_ms: Math.min(p.approval_expires_ms as number, rest), control, kept }
}

function requestFaults(one: NaiveCase): string[] {
  const faults: string[] = []
  if (one.forged) faults.push('E005')
  const age = one.timed_id ? one.id_age_ms : one.waited_ms
  if (age > WINDOW_MS || (one.timed_id && age < -60_000)) faults.push('E005')
  if (one.originates === undefined && !one.open_registration) faults.push('E013')
  if (one.originates === 'never') faults.push('E013')
  if (one.originates === 'within_a_pass' && !one.parent) faults.push('E013')
  return faults
}

function parentFaults({ parent }: NaiveCase): string[] {
  if (!parent) return []
  const { known, state, right_return_id, right_proof, right_subagent, rest_ms } = parent
  return known && state === 'open' && right_return_id && right_proof && right_subagent && rest_ms > 0 ? [] : ['E013']
}

/** Each number of the policy's budget, the request's own and what the parent has left, this pass taken off. */
function budgetOf({ budget, parent }: NaiveCase, ofPolicy: Budget | undefined): Budget {
  const least: Record<string, number> = {}
  for (const field of ['passes', 'tokens', 'time_ms'] as const) {
    const above = parent?.budget?.[field]
    const left = above !== undefined && field === 'passes' ? above - 1 : above
    const said = [ofPolicy?.[field], budget?.[field], left].filter((value) => value !== undefined)
    if (said.length > 0) least[field] = Math.min(...said)
  }
  return least
}

/**
 * The pair's limits count its passes, the subagent's (its entry's, else its record's) all passes to it; the session's its roots, or a tree's children.
 * Of the subagent's, an originator whose pair has no such limit has half; held passes take nothing of the subagent.
 */
function limitFaults({ counts, policy, parent, unnamed_session }: NaiveCase, session_limit: number): string[] {
  const faults: string[] = []
  const taken = ({ minute, active, held }: Counted) => ({ max_passes_per_minute: minute, max_active: active - held })
  for (const [field, count] of [['max_passes_per_minute', 'minute'] as const, ['max_active', 'active'] as const]) {
    const pair = policy.pair?.[field] as number | undefined
    const subagent = (policy.subagent?.[field] ?? policy.registry?.[field]) as number | undefined
    if (pair !== undefined && counts.pair[count] >= pair) faults.push(`E014 pair.${field}`)
    if (subagent === undefined) continue
    if (taken(counts.subagent)[field] >= subagent) faults.push(`E014 subagent.${field}`)
    if (pair === undefined && taken(counts.pair)[field] * 2 >= subagent) faults.push(`E014 share.${field}`)
  }
  if (parent && counts.tree >= session_limit) faults.push('E014 tree.max_passes_per_session')
  if (!parent && !unnamed_session && counts.session >= session_limit) faults.push('E014 session.max_passes_per_session')
  return faults
}

/** Parent ∩ pair ∩ subagent, narrowed by the constraints of both requests. */
function rightsOf({ parent, constraints }: NaiveCase, p: Record<string, unknown>): Rights {
  const all = [...new Set([...(parent?.rights.constraints ?? []), ...constraints])]
  const lists = [parent?.rights.tools, p.tools as string[] | undefined].filter((list) => list !== undefined)
  const tools = lists.length === 0 ? undefined : lists.reduce((a, b) => a.filter((tool) => b.includes(tool)))
  return {
    can_modify_files: Boolean(p.can_modify_files) && parent?.rights.can_modify_files !== false && !all.includes('read_only'),
    can_run_tools: Boolean(p.can_run_tools) && parent?.rights.can_run_tools !== false && !all.includes('no_tools'),
    ...(tools ? { tools } : {}),
    constraints: all,
  }
}
