/** What agents send is shown to people: control characters (escape sequences among them) must not reach their terminal. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is taken out
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g

/** Text that is safe to print; keeps line breaks and tabs. */
export function plain(text: string): string {
  return text.replace(/\r\n/g, '\n').replace(CONTROL, '')
}

/** One line of at most `width` characters, cut with an ellipsis. */
export function oneLine(text: string, width = Number.POSITIVE_INFINITY): string {
  const line = plain(text).replace(/\s+/g, ' ').trim()
  return line.length <= width ? line : `${line.slice(0, Math.max(0, width - 1))}…`
}

/** Every line that says something, moved to the right. */
export function indent(text: string, by = '  '): string {
  return plain(text) === '' ? '' : text.replace(/^(?=.)/gm, by)
}

/** `1 file`, `2 files`, `1 match`, `2 matches`. */
export function count(n: number, noun: string, plural = `${noun}s`): string {
  return `${n} ${n === 1 ? noun : plural}`
}

const COMMANDS =
  /(^|[^\w/-])passover (?=(?:up|request|work|list|show|watch|cancel|approve|deny|inbox|dlq|audit|agents|policy|doctor|help)\b)/g

/** Commands in a hint as they can be typed there: through npx where the command was started by it. */
export function typed(text: string, env: NodeJS.ProcessEnv): string {
  return env.npm_command === 'exec' ? text.replace(COMMANDS, '$1npx passover ') : text
}
