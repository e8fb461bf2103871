import type { ChangeWarning } from '@passover/schemas'
import { hiddenIn, oneLine, visible } from '../text/index.js'
import { binaryType, type TextForm } from './content.js'
import { runsByItself } from './runs-by-itself.js'

/** Maximum number of characters that are searched. More is shown only on request, with every hidden character visible. */
const MAX_SEARCHED = 4 * 1024 * 1024
/** Maximum number of characters and words that one warning names. */
const MAX_NAMED = 12
const WORD = /[\p{L}\p{M}\p{N}_]+/gu
const LATIN = /\p{Script=Latin}/u
/** Scripts with letters that look like Latin ones. */
const LOOKALIKE = /[\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Armenian}\p{Script=Cherokee}]/u
const NOT_ASCII = /[^\p{ASCII}]/u

export interface Warned {
  path: string
  reasons: readonly string[]
  /** Text of the lines that the change adds, line ends included. */
  added: string
  before: TextForm | undefined
  after: TextForm | undefined
  /** `undefined` if the file is deleted. */
  bytes: Buffer | undefined
  mode: number | undefined
}

/** Lists what an approver has to know about a change and could miss in its diff. */
export function warningsOf(change: Warned): ChangeWarning[] {
  const { path, bytes } = change
  const added = change.added.slice(0, MAX_SEARCHED)
  const runs = runsByItself(path)
  return [
    ...(runs === undefined ? [] : [{ kind: 'runs_by_itself' as const, message: `this file runs automatically: ${runs}` }]),
    ...hidden('the path', path, /[\n\t]/.test(path) ? [visible('\n\t')] : []),
    ...change.reasons.flatMap((reason) => hidden('the reason', reason)),
    ...hidden('the new content', added),
    ...mixedScripts(`${path}\n${added}`),
    ...(bytes ? executable(change, bytes) : []),
    ...(change.after ? formWarnings(change.before, change.after) : []),
  ]
}

function hidden(where: string, text: string, also: readonly string[] = []): ChangeWarning[] {
  const characters = [...hiddenIn(text), ...also]
  if (characters.length === 0) return []
  return [{ kind: 'hidden_characters', message: `hidden characters in ${where}: ${named(characters)}`, characters }]
}

function named(names: readonly string[]): string {
  const more = names.length - MAX_NAMED
  return `${names.slice(0, MAX_NAMED).join(' ')}${more > 0 ? ` and ${more} more` : ''}`
}

function mixedScripts(text: string): ChangeWarning[] {
  if (!NOT_ASCII.test(text)) return []
  const words = new Set<string>()
  for (const [word] of text.matchAll(WORD)) if (LATIN.test(word) && LOOKALIKE.test(word)) words.add(oneLine(word, 40))
  if (words.size === 0) return []
  return [{ kind: 'mixed_scripts', message: `words that mix Latin with look-alike letters of another script: ${named([...words])}` }]
}

function executable({ after, mode = 0 }: Warned, bytes: Buffer): ChangeWarning[] {
  const { type, program } = after ? { type: '', program: false } : binaryType(bytes)
  const why = program ? `it is a ${type}` : (mode & 0o111) !== 0 ? `its mode is ${(mode & 0o777).toString(8)}` : undefined
  return why === undefined ? [] : [{ kind: 'executable', message: `the file can be executed: ${why}` }]
}

const ENCODINGS = { utf8: 'UTF-8', utf16le: 'UTF-16 LE', utf16be: 'UTF-16 BE' } as const
const ENDS = { '\n': 'LF', '\r\n': 'CRLF', mixed: 'mixed LF and CRLF' } as const

function formWarnings(before: TextForm | undefined, after: TextForm): ChangeWarning[] {
  const found: ChangeWarning[] = []
  const written = ({ encoding, bom }: TextForm) => `${ENCODINGS[encoding]}${bom ? ' with a byte order mark' : ''}`
  const was = before ? written(before) : ENCODINGS.utf8
  if (written(after) !== was)
    found.push({ kind: 'encoding', message: `the file is written as ${written(after)}${before ? `, and was ${was}` : ''}` })
  if (after.ends === 'mixed' || (before?.ends && after.ends && before.ends !== after.ends))
    found.push({
      kind: 'line_ends',
      message: `line ends are ${after.ends ? ENDS[after.ends] : 'none'}${before?.ends ? `, and were ${ENDS[before.ends]}` : ''}`,
    })
  return found
}
