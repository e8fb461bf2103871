export { cut, cutStart, oneLine, shellWord, visible, visibleLines } from '@passover/core/text'
export { count, sizeText } from '@passover/sdk/words'

/** Indents every line that is not empty. */
export function indent(text: string, by = '  '): string {
  return text.replace(/^(?=.)/gm, by)
}

/** Indents every line after the first, so that text of several lines cannot pass for a line of the program's own. */
export function indentRest(text: string, by = '    '): string {
  return text.replace(/(\r?\n)(?=.)/g, `$1${by}`)
}

const COMMANDS =
  /(^|[^\w/-])passover (?=(?:up|request|work|list|show|watch|cancel|approve|deny|apply|undo|inbox|dlq|audit|agents|auth|policy|verify|evidence|replay|gateway|doctor|help)\b)/g

/** Commands in a hint as they can be typed there: through npx where the command was started by it. */
export function typed(text: string, env: NodeJS.ProcessEnv): string {
  return env.npm_command === 'exec' ? text.replace(COMMANDS, '$1npx passover ') : text
}
