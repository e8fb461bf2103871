import { activePolicy } from '@passover/operator'
import { type PromptSources, type PromptTemplate, readPromptTemplate, renderPrompt, templateFor } from '@passover/sdk/internal'
import type { PolicySession } from '../policy/session.js'
import { unknownAgentError } from './agent-store.js'

/** A prompt and the sources that it was made from. */
export interface AgentPrompt {
  agent: string
  template: PromptTemplate
  /** Version of the policy; 0 for the system's defaults. */
  policy_version: number
  prompt: string
}

/** Builds the prompt of an agent from the current registry and policy. Throws CliFailure E041 if the agent is not registered. */
export async function buildAgentPrompt(session: PolicySession, agent: string, template?: PromptTemplate): Promise<AgentPrompt> {
  if (!session.agents?.has(agent)) throw unknownAgentError(agent)
  const { version, document } = await activePolicy(session)
  const sources: PromptSources = { agents: [...session.agents.values()], policy: document }
  const chosen = template ?? templateFor(agent, sources)
  return { agent, template: chosen, policy_version: version, prompt: renderPrompt(readPromptTemplate(chosen), agent, sources) }
}
