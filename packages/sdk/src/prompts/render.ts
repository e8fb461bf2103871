import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { PassOverError } from '@passover/core'
import { type PromptContext, type PromptSources, promptContext } from './context.js'
import { errorTable, originatorLines, subagentLines } from './sections.js'

/** The three bundled prompts: for an originator, a subagent, and an agent that is both. */
export const PROMPT_TEMPLATES = ['alice', 'audit', 'scout'] as const
export type PromptTemplate = (typeof PROMPT_TEMPLATES)[number]

/** Returns the text of a bundled template (packages/sdk/prompts). */
export function readPromptTemplate(template: PromptTemplate): string {
  // Resolved by the package's name, because the CLI bundles this module.
  return readFileSync(createRequire(import.meta.url).resolve(`@passover/sdk/prompts/${template}.md`), 'utf8')
}

const SECTION = /^\{\{([#^])(\w+)\}\}\n([\s\S]*?)^\{\{\/\2\}\}\n/gm
const BLOCK = /\{\{(\w+)\}\}/g

/**
 * Renders the prompt of an agent: fills the named blocks of a template from registry and policy, so that it names only agents and tools that exist.
 * Pure. A section `{{#block}} … {{/block}}` is kept only if the block is not empty, `{{^block}}` only if it is. Throws E041 if the registry does not
 * know the agent.
 */
export function renderPrompt(template: string, agent: string, sources: PromptSources): string {
  const facts = promptContext(agent, sources)
  if (!facts) throw new PassOverError('E041', `agent ${agent} is not registered`, { agent })
  return fill(template, blocksOf(facts))
}

/** Returns the template with the agent's name, else the one that fits its roles. Throws E041 if the registry does not know the agent. */
export function templateFor(agent: string, sources: PromptSources): PromptTemplate {
  const facts = promptContext(agent, sources)
  if (!facts) throw new PassOverError('E041', `agent ${agent} is not registered`, { agent })
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

/** Fills the blocks of a template. Inserted text is not scanned again, because a description may look like a block. */
function fill(template: string, blocks: Blocks): string {
  const blockOf = (name: string): string => {
    const text = Object.hasOwn(blocks, name) ? blocks[name] : undefined
    if (text === undefined) throw new Error(`a prompt template refers to the block ${name}, which does not exist`)
    return text
  }
  const choose = (text: string): string =>
    text.replace(SECTION, (_, mark: string, name: string, inner: string) =>
      (mark === '#') === (blockOf(name) !== '') ? choose(inner) : '',
    )
  return choose(template).replace(BLOCK, (_, name: string) => blockOf(name))
}
