import { readFileSync } from 'node:fs'
import type { PromptTemplate } from './render.js'

/** The text of a template as it is shipped: packages/sdk/prompts. */
export function readPromptTemplate(template: PromptTemplate): string {
  return readFileSync(new URL(`../../prompts/${template}.md`, import.meta.url), 'utf8')
}
