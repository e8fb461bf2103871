import { plain } from '@passover/sdk/words'

export { count, oneLine, plain, sizeText } from '@passover/sdk/words'

/** Every line that says something, moved to the right. */
export function indent(text: string, by = '  '): string {
  return plain(text) === '' ? '' : text.replace(/^(?=.)/gm, by)
}

const COMMANDS =
  /(^|[^\w/-])passover (?=(?:up|request|work|list|show|watch|cancel|approve|deny|apply|undo|inbox|dlq|audit|agents|auth|policy|verify|evidence|replay|gateway|doctor|help)\b)/g

/** Commands in a hint as they can be typed there: through npx where the command was started by it. */
export function typed(text: string, env: NodeJS.ProcessEnv): string {
  return env.npm_command === 'exec' ? text.replace(COMMANDS, '$1npx passover ') : text
}
