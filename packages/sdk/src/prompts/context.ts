import { resolvePolicy } from '@passover/core'
import type { AgentRecord, EffectivePolicy, ErrorCode, PassOverPreferences } from '@passover/schemas'

/** Sources of the facts in a prompt: the live registry and the live policy. */
export interface PromptSources {
  agents: readonly AgentRecord[]
  policy: PassOverPreferences
}

/** Another agent, and the policy of the pair with it. */
export interface Partner {
  agent: AgentRecord
  policy: Readonly<EffectivePolicy>
}

/** Facts about one agent. All statements about other agents in its prompt come from here. */
export interface PromptContext {
  agent: AgentRecord
  /** Agents that it may pass work to, and agents that may pass work to it, by name. */
  subagents: Partner[]
  originators: Partner[]
  /** Codes that passOver() can reject with, and those that can end a pass to it. */
  errors: ErrorCode[]
  endings: ErrorCode[]
}

/** Returns the facts for a prompt, or `undefined` if the registry does not know the agent. */
export function promptContext(name: string, sources: PromptSources): PromptContext | undefined {
  const agent = sources.agents.find((one) => one.name === name)
  if (!agent) return undefined
  const others = sources.agents.filter((one) => one.name !== name).sort((a, b) => (a.name < b.name ? -1 : 1))
  const subagents = others.flatMap((one) => pairOf({ from: agent, to: one }, sources.policy, one))
  const originators = others.flatMap((one) => pairOf({ from: one, to: agent }, sources.policy, one))
  return { agent, subagents, originators, errors: errorsOf(agent, subagents, others), endings: endingsOf(originators) }
}

/** Returns the policy of a pair, if the first agent may pass work to the second. */
function pairOf({ from, to }: { from: AgentRecord; to: AgentRecord }, policy: PassOverPreferences, partner: AgentRecord): Partner[] {
  if (from.roles.originates === 'never' || !to.roles.subagent) return []
  const resolved = resolvePolicy(policy, { from: from.name, to: to.name, agent: to })
  if (!resolved.ok || !resolved.value.effective.enabled || !resolved.value.effective.can_receive_passes) return []
  return [{ agent: partner, policy: resolved.value.effective }]
}

/**
 * Returns the codes that passOver() can reject with. E020 and E022 never end an awaited pass; E030, E031 and E042 belong to configuration and the
 * command line.
 */
function errorsOf(agent: AgentRecord, subagents: Partner[], others: AgentRecord[]): ErrorCode[] {
  if (subagents.length === 0) return []
  const deep = agent.roles.subagent ? (['E002'] as const) : []
  const disabled = others.some((one) => one.roles.subagent && !subagents.some((to) => to.agent === one)) ? (['E004'] as const) : []
  return ['E001', ...deep, 'E003', ...disabled, 'E005', 'E010', 'E011', 'E012', 'E013', 'E014', 'E021', 'E040', 'E043']
}

function endingsOf(originators: Partner[]): ErrorCode[] {
  return originators.length === 0 ? [] : ['E010', 'E011', 'E013', 'E021', 'E043']
}
