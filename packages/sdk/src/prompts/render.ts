import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { PassOverError } from '@passover/core'
import { type PromptContext, type PromptSources, promptContext } from './context.js'
import { errorTable, originatorLines, subagentLines } from './sections.js'

/** The three prompts that are shipped: who passes over, who works, and who does both. */
export const PROMPT_TEMPLATES = ['alice', 'audit', 'scout'] as const
export type PromptTemplate = (typeof PROMPT_TEMPLATES)[number]

/** The text of a template as it is shipped: packages/sdk/prompts. */
export function readPromptTemplate(template: PromptTemplate): string {
  // Looked up by the package's name, since the command carries this module in its bundle.
  return readFileSync(createRequire(import.meta.url).resolve(`@passover/sdk/prompts/${template}.md`), 'utf8')
}

const SECTION = /^\{\{([#^])(\w+)\}\}\n([\s\S]*?)^\{\{\/\2\}\}\n/gm
const BLOCK = /\{\{(\w+)\}\}/g

/**
 * The prompt of one agent: a template's text with its named blocks filled from registry and policy, so that it names no
 * agent or tool that does not exist. Pure. A section `{{#block}} … {{/block}}` stands only where the block says something,
 * `{{^block}}` only where it does not. Throws E041 for an agent that the registry does not know.
 */
export function renderPrompt(template: string, agent: string, sources: PromptSources): string {
  const facts = promptContext(agent, sources)
  if (!facts) throw new PassOverError('E041', `there is no agent ${agent}`, { agent })
  return fill(template, blocksOf(facts))
}

/** The template of its own name, else the one that fits what an agent does. E041 for one that the registry does not know. */
export function templateFor(agent: string, sources: PromptSources): PromptTemplate {
  const facts = promptContext(agent, sources)
  if (!facts) throw new PassOverError('E041', `there is no agent ${agent}`, { agent })
  const own = PROMPT_TEMPLATES.find((template) => template === agent)
  if (own) return own
  if (!facts.agent.roles.subagent) return 'alice'
  return facts.subagents.length > 0 ? 'scout' : 'audit'
}

type Blocks = Record<string, string>

function blocksOf({ agent, subagents, originators, errors, endings }: PromptContext): Blocks {
  const [first] = subagents
  return {
    agent: agent.name,
    subagents: subagentLines(subagents),
    first: first?.agent.name ?? '',
    files_passed: first?.policy.pass_files ? 'yes' : '',
    originators: originatorLines(originators),
    within_a_pass: agent.roles.originates === 'within_a_pass' ? 'yes' : '',
    errors: errors.length > 0 ? errorTable(errors) : '',
    endings: endings.length > 0 ? errorTable(endings) : '',
  }
}

/** What was filled in is never looked at again: a description may look like a block. */
function fill(template: string, blocks: Blocks): string {
  const blockOf = (name: string): string => {
    const text = Object.hasOwn(blocks, name) ? blocks[name] : undefined
    if (text === undefined) throw new Error(`a prompt template names the block ${name}, which there is not`)
    return text
  }
  const choose = (text: string): string =>
    text.replace(SECTION, (_, mark: string, name: string, inner: string) =>
      (mark === '#') === (blockOf(name) !== '') ? choose(inner) : '',
    )
  return choose(template).replace(BLOCK, (_, name: string) => blockOf(name))
}
