import { activePolicy } from '@passover/operator'
import { type PromptSources, type PromptTemplate, readPromptTemplate, renderPrompt, templateFor } from '@passover/sdk'
import type { PolicySession } from '../policy/session.js'
import { unknownAgentError } from './agent-store.js'

/** A prompt, and of what it was made. */
export interface AgentPrompt {
  agent: string
  template: PromptTemplate
  /** 0: the system's defaults. */
  policy_version: number
  prompt: string
}

/** The prompt of an agent as registry and policy are now. CliFailure E041 for an agent that the registry does not know. */
export async function buildAgentPrompt(session: PolicySession, agent: string, template?: PromptTemplate): Promise<AgentPrompt> {
  if (!session.agents?.has(agent)) throw unknownAgentError(agent)
  const { version, document } = await activePolicy(session)
  const sources: PromptSources = { agents: [...session.agents.values()], policy: document }
  const chosen = template ?? templateFor(agent, sources)
  return { agent, template: chosen, policy_version: version, prompt: renderPrompt(readPromptTemplate(chosen), agent, sources) }
}
