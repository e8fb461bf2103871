import type { EffectivePolicy, Rights } from '@passover/schemas'
import { narrowest } from '../policy/narrowing.js'

/** Constraints that remove a right. All others are passed to the worker, which must respect them. */
const READ_ONLY = 'read_only'
const NO_TOOLS = 'no_tools'

/**
 * Returns what the subagent may do: parent ∩ pair ∩ subagent (the last two from `policy`), narrowed by the request's constraints (P5, I5).
 * Constraints of the parent apply to its children too.
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
