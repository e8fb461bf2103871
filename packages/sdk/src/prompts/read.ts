import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { PromptTemplate } from './render.js'

/** The text of a template as it is shipped: packages/sdk/prompts. */
export function readPromptTemplate(template: PromptTemplate): string {
  // Looked up by the package's name, since the command carries this module in its bundle.
  return readFileSync(createRequire(import.meta.url).resolve(`@passover/sdk/prompts/${template}.md`), 'utf8')
}
