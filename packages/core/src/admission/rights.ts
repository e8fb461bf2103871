import type { EffectivePolicy, Rights } from '@passover/schemas'
import { narrowest } from '../policy/narrowing.js'

/** Constraints that take a right away; every other one is passed on for the worker to keep. */
const READ_ONLY = 'read_only'
const NO_TOOLS = 'no_tools'

/**
 * What the subagent may do: parent ∩ pair ∩ subagent (both in `policy`), narrowed by the request's constraints (P5, I5).
 * Constraints of the parent bind its children too.
 */
export function rightsOf(policy: EffectivePolicy, constraints: readonly string[], parent?: Rights): Rights {
  const all = [...new Set([...(parent?.constraints ?? []), ...constraints])]
  const tools = narrowest('subset', parent?.tools ?? policy.tools, policy.tools ?? parent?.tools) as string[] | undefined
  return {
    can_modify_files: policy.can_modify_files && (parent?.can_modify_files ?? true) && !all.includes(READ_ONLY),
    can_run_tools: policy.can_run_tools && (parent?.can_run_tools ?? true) && !all.includes(NO_TOOLS),
    ...(tools ? { tools } : {}),
    constraints: all,
  }
}
