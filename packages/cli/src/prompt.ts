import type { Bus } from '@passover/bus'
import { type AgentRecord, agentRecord, type PassOverPreferences, policyVersion } from '@passover/schemas'
import { type PromptSources, type PromptTemplate, readPromptTemplate, renderPrompt, templateFor } from '@passover/sdk'
import { CliFailure } from './failure.js'

/** A prompt, and of what it was made. */
export interface AgentPrompt {
  agent: string
  template: PromptTemplate
  /** 0: the system's defaults. */
  policy_version: number
  prompt: string
}

/** The prompt of an agent as registry and policy are now. E041 for an agent that the registry does not know. */
export async function promptOf(bus: Bus, agent: string, template?: PromptTemplate): Promise<AgentPrompt> {
  const [agents, { version, document }] = await Promise.all([readRegistry(bus), readPolicy(bus)])
  if (!agents.some(({ name }) => name === agent))
    throw new CliFailure('E041', `there is no agent ${agent}`, {
      hint: '`passover agents` lists them, `passover agents add` registers one',
    })
  const sources: PromptSources = { agents, policy: document }
  const chosen = template ?? templateFor(agent, sources)
  return { agent, template: chosen, policy_version: version, prompt: renderPrompt(readPromptTemplate(chosen), agent, sources) }
}

async function readRegistry(bus: Bus): Promise<AgentRecord[]> {
  const agents: AgentRecord[] = []
  for await (const { value } of (await bus.table('agents', agentRecord)).entries()) agents.push(value)
  return agents
}

async function readPolicy(bus: Bus): Promise<{ version: number; document: PassOverPreferences }> {
  const current = await (await bus.table('policy', policyVersion)).get('current')
  return current?.value ?? { version: 0, document: {} }
}
