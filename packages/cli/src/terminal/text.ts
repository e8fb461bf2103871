import { basename, delimiter, dirname } from 'node:path'

export { cut, cutStart, oneLine, shellWord, visible, visibleLines } from '@passover/core/text'
export { count, sizeText } from '@passover/sdk/internal/format'
export { columnsOf, cutColumns } from './wrap.js'

/** Indents every line that is not empty. */
export function indent(text: string): string {
  return text.replace(/^(?=.)/gm, '  ')
}

/** Marks every line of a text that an agent wrote, so that no line can pass for one of this program. */
export function quoteLines(text: string): string {
  return text.replace(/^/gm, '  │ ')
}

/** Marks every line after the first, as {@link quoteLines} does. */
export function indentContinuation(text: string): string {
  return text.replace(/(\r?\n)(?=.)/g, '$1    │ ')
}

const COMMANDS =
  /(^|[^\w/-])(?<!npx )passover (?=(?:init|up|request|retry|work|list|show|logs|watch|top|cancel|approve|deny|apply|undo|inbox|dlq|audit|agents|auth|policy|verify|evidence|replay|gateway|doctor|config|chaos|completion|help|--help)\b|\[options\])/g

/**
 * Returns a text with its commands rewritten so that they can be typed as shown. Every hint goes through here.
 *
 * - `passover …` if the shell finds the command;
 * - `npx passover …` if npm started this process, or the command is in a project's `node_modules/.bin`, which shells do not search;
 * - `npx @passover/cli …` if npx fetched the package, because `npx passover` would fetch an unrelated package of that name.
 */
export function formatCommands(text: string, env: NodeJS.ProcessEnv = process.env, started = process.argv[1] ?? ''): string {
  const runner = runnerOf(env, started)
  return runner === undefined ? text : text.replace(COMMANDS, `$1${runner} `)
}

function runnerOf({ npm_command, PATH = '' }: NodeJS.ProcessEnv, started: string): string | undefined {
  if (started.split(/[\\/]/).includes('_npx')) return 'npx @passover/cli'
  const folder = dirname(started)
  const isHidden = basename(folder) === '.bin' && !PATH.split(delimiter).includes(folder)
  return npm_command || isHidden ? 'npx passover' : undefined
}
