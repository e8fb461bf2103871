import { eastAsianWidth } from 'get-east-asian-width'

/** Marks a continuation of the line above. No line of the program begins with it. */
const MARK = '│ '
/** Additional columns of indentation of a continuation. */
const CONTINUATION_INDENT = 4
/** Minimum columns of text in a continuation; with fewer it is not indented. */
const MIN_CONTINUATION_COLUMNS = 12
const TAB = 8
const ESCAPE = '\u001b'
const STYLE = new RegExp(`(${ESCAPE}\\[\\d+m)`)
const PLAIN = /^[\x20-\x7e]*$/
const PICTURE = /[\p{Extended_Pictographic}\p{Regional_Indicator}]/u
/** Terminals in these languages draw ambiguous characters (`→`, `é`, Cyrillic) two columns wide. */
const WIDE_LANGUAGES = /^(?:zh|ja|ko)/

const ambiguousAsWide = WIDE_LANGUAGES.test(process.env.LC_ALL || process.env.LC_CTYPE || process.env.LANG || '')

/**
 * Returns the maximum number of columns that a terminal needs for a text. Terminals differ in combining marks and emoji, so each code point counts as
 * at least one column, and a pictograph as two.
 */
export function columnsOf(text: string): number {
  if (PLAIN.test(text)) return text.length
  let columns = 0
  for (const character of text) columns += widthOf(character)
  return columns
}

function widthOf(character: string): number {
  if (character === '\t') return TAB
  const code = character.codePointAt(0) ?? 0
  if (code < 0x7f) return 1
  return PICTURE.test(character) ? 2 : eastAsianWidth(code, { ambiguousAsWide })
}

/** Shortens a one-line text to a number of columns; a shortened text ends with `…`. */
export function cutColumns(text: string, columns: number): string {
  if (columnsOf(text) <= columns) return text
  const mark = columnsOf('…') <= columns ? '…' : ''
  return takeColumns(text, columns - columnsOf(mark)) + mark
}

/** Returns the beginning of a text that fits: whole grapheme clusters, and never half a surrogate pair. */
function takeColumns(text: string, columns: number): string {
  let [taken, used] = ['', 0]
  for (const cluster of clusters(text)) {
    used += columnsOf(cluster)
    if (used > columns) break
    taken += cluster
  }
  return taken
}

let segmenter: Intl.Segmenter | undefined

/** Yields grapheme clusters. Splits those wider than `most` columns, because a letter with dozens of marks would not fit any line. */
function* clusters(text: string, most = MIN_CONTINUATION_COLUMNS): Iterable<string> {
  segmenter ??= new Intl.Segmenter(undefined, { granularity: 'grapheme' })
  for (const { segment } of segmenter.segment(text)) {
    if (columnsOf(segment) > most) yield* segment
    else yield segment
  }
}

/**
 * Wraps lines that are wider than the terminal. A continuation is indented and begins with `│`, so that it cannot pass for a field or a line of a
 * diff. If the terminal wrapped it, it would begin in the first column, at a position that the author of the text controls.
 *
 * @param text - Has no escape sequences except the styles of {@link printable}.
 */
export function wrap(text: string, columns: number): string {
  return text
    .split('\n')
    .map((line) => (PLAIN.test(line) && line.length <= columns ? line : wrapLine(line, columns)))
    .join('\n')
}

function wrapLine(line: string, columns: number): string {
  const parts = line.split(STYLE)
  const bare = parts.filter((_, index) => index % 2 === 0).join('')
  if (columnsOf(bare) <= columns) return line
  const indent = Math.min(bare.search(/[^ ]|$/), Math.floor(columns / 4)) + CONTINUATION_INDENT
  const before = columns - indent - columnsOf(MARK) >= MIN_CONTINUATION_COLUMNS ? ' '.repeat(indent) + MARK : MARK
  const rows: string[] = []
  let row: Token[] = []
  let used = 0
  let room = columns
  for (const token of tokensOf(parts, Math.min(MIN_CONTINUATION_COLUMNS, columns - columnsOf(MARK)))) {
    while (row.length > 0 && used + token.width > room) {
      const rest = row.splice(breakIn(row, room))
      rows.push(textIn(row))
      row = rest
      used = widthIn(row)
      room = Math.max(1, columns - columnsOf(before))
    }
    row.push(token)
    used += token.width
  }
  return [...rows, textIn(row)].join(`\n${before}`)
}

interface Token {
  text: string
  width: number
}

function* tokensOf(parts: readonly string[], most: number): Iterable<Token> {
  for (const [index, part] of parts.entries()) {
    if (index % 2 === 1) yield { text: part, width: 0 }
    else for (const text of clusters(part, most)) yield { text, width: columnsOf(text) }
  }
}

/** Returns where to break: after the last space if that is beyond the first third of the row, so that an id stays whole; else at the end. */
function breakIn(row: readonly Token[], room: number): number {
  const after = row.findLastIndex(({ text }) => text === ' ') + 1
  return widthIn(row.slice(0, after)) * 3 > room ? after : row.length
}

function widthIn(row: readonly Token[]): number {
  return row.reduce((sum, { width }) => sum + width, 0)
}

function textIn(row: readonly Token[]): string {
  return row.map(({ text }) => text).join('')
}
