import { contentBytes, textForm } from '@passover/core/changes'
import type { RequestContent, RequestPart } from '../stored-messages/request-content.js'
import type { Terminal } from '../terminal/terminal.js'
import { count, cut, indent, quoteLines, sizeText, visible, visibleLines } from '../terminal/text.js'

type Json = Record<string, unknown>

/** A titled block of a request with its whole text, or why it has none. */
interface Section {
  title: string
  text: string
  missing?: string
}

interface View extends Pick<Terminal, 'colors'> {
  /**
   * Maximum characters. The rest is replaced by a statement of what is left out.
   * @defaultValue no maximum
   */
  most?: number
}

/** Maximum characters of a request that `approve` shows. */
export const REQUEST_SHOWN = 64 * 1024
/** Number of parts whose names and sizes are listed although nothing of them is shown. */
const NAMES_SHOWN = 200
const NAME_LENGTH = 500
/** Maximum nesting of JSON that is shown as an outline. Deeper JSON is shown as stored. */
const MAX_DEPTH = 32
const FILE = 'file:'
/** Fields of the part `context`, and parts, that come first. */
const FIRST_FIELDS = ['objective', 'background', 'constraints']
const FIRST_PARTS = ['context', 'messages', 'tool_results']

/**
 * Renders the request of a pass with its whole context: objective, background and all other fields, messages, tool results and the contents of files.
 * Hidden characters are visible, and every line of content is marked, so that none can pass for a line of this program.
 */
export function renderRequest(content: RequestContent, { colors, most = Number.POSITIVE_INFINITY }: View): string {
  const blocks: string[] = []
  let [left, names, hidden, unnamed, missed] = [most, NAMES_SHOWN, 0, 0, 0]
  for (const { title, text, missing } of sectionsOf(content)) {
    const room = left - title.length
    const shown = cut(text, Math.max(0, room), '')
    const rest = text.length - shown.length
    hidden += rest
    if (missing !== undefined) missed++
    if (shown !== '' || room >= 0) left = room - shown.length
    else if (names > 0) names--
    else {
      unnamed++
      continue
    }
    const why = missing ?? (rest > 0 ? `${shown ? 'the last ' : ''}${count(rest, 'character')}` : undefined)
    const warning = why === undefined ? [] : [colors.yellow(`  ⚠ not shown: ${why}`)]
    blocks.push([colors.bold(title), ...(shown ? [quoteLines(shown)] : []), ...warning].join('\n'))
  }
  const left_out = [
    hidden > 0 && count(hidden, 'character'),
    missed > 0 && `the content of ${count(missed, 'part')}`,
    unnamed > 0 && `the names of ${count(unnamed, 'part')}`,
  ].filter(Boolean)
  if (left_out.length > 0) blocks.push(colors.yellow(`⚠ Not shown of this request: ${left_out.join(', ')}`))
  return blocks.join('\n\n')
}

function sectionsOf({ request, parts }: RequestContent): Section[] {
  const { id: _id, originating_agent_id: _from, subagent_id: _to, ...rest } = request
  const rank = ({ name }: RequestPart) => (FIRST_PARTS.includes(name) ? FIRST_PARTS.indexOf(name) : FIRST_PARTS.length)
  const ordered = [...parts].sort((one, other) => rank(one) - rank(other))
  const encoded = base64Files(parts)
  return [{ title: 'request', text: outline(rest).join('\n') }, ...ordered.map((part) => sectionOf(part, encoded))]
}

function sectionOf(part: RequestPart, encoded: ReadonlySet<string>): Section {
  const { name, size, sha256, text, not_loaded } = part
  const named = visible(cut(name.startsWith(FILE) ? `file ${name.slice(FILE.length)}` : name, NAME_LENGTH))
  const title = `${named} (${sizeText(size)}, sha256 ${sha256})`
  if (text === undefined) return { title, text: '', missing: not_loaded === undefined ? 'it is not UTF-8 text' : visible(not_loaded) }
  return { title, text: shownText(name, text, encoded.has(name)) }
}

function shownText(name: string, text: string, isEncoded: boolean): string {
  if (name.startsWith(FILE)) return isEncoded ? decodedText(text) : visibleLines(text)
  try {
    const value: unknown = JSON.parse(text)
    return outline(name === 'context' ? inOrder(value) : value).join('\n')
  } catch {
    return visibleLines(text)
  }
}

/** Returns the names of the parts of files whose content is base64, as the part `context` says. */
function base64Files(parts: readonly RequestPart[]): ReadonlySet<string> {
  try {
    const { files } = JSON.parse(parts.find(({ name }) => name === 'context')?.text ?? '{}') as { files?: Json[] }
    return new Set((files ?? []).filter(({ encoding }) => encoding === 'base64').map(({ path }) => `${FILE}${path}`))
  } catch {
    return new Set()
  }
}

/** Shows base64 decoded if it is text. Anything else, also text that is not strictly base64, is shown as stored. */
function decodedText(text: string): string {
  const bytes = contentBytes(text, { encoding: 'base64' })
  const decoded = bytes.toString('base64') === text ? textForm(bytes) : undefined
  return decoded ? `(base64 of this ${decoded.encoding} text)\n${visibleLines(decoded.text)}` : visibleLines(text)
}

function inOrder(context: unknown): unknown {
  if (!isJson(context)) return context
  const first = FIRST_FIELDS.filter((name) => Object.hasOwn(context, name)).map((name) => [name, context[name]])
  return Object.fromEntries([...first, ...Object.entries(context).filter(([name]) => !FIRST_FIELDS.includes(name))])
}

/** Renders JSON as an indented outline, in which texts have their own lines. Throws RangeError if it is nested too deeply. */
function outline(value: unknown, depth = 0): string[] {
  if (depth > MAX_DEPTH) throw new RangeError('nested too deeply')
  const entries: [string, unknown][] = Array.isArray(value)
    ? value.map((each, index) => [`${index + 1}.`, each])
    : isJson(value)
      ? Object.entries(value).map(([name, each]) => [`${visible(name)}:`, each])
      : [['', value]]
  return entries.flatMap(([label, each]) => {
    const lines = isNested(each) ? outline(each, depth + 1) : scalarLines(each)
    const [first = ''] = lines
    if (label === '') return lines
    return lines.length === 1 && !isNested(each) ? [`${label} ${first}`] : [label, ...lines.map((line) => indent(line))]
  })
}

function scalarLines(value: unknown): string[] {
  if (typeof value === 'string' && value !== '') return visibleLines(value).split('\n')
  return [value === '' ? '""' : Array.isArray(value) ? '[]' : isJson(value) ? '{}' : String(value)]
}

/** True for lists and objects that have entries. */
function isNested(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length > 0
}

function isJson(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
