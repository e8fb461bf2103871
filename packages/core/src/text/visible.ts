import { cut } from './cut.js'
import { nameHidden, replaceHidden } from './hidden.js'

/**
 * Makes every hidden character of a text visible: `␛`, `␍`, `<U+202E>`. The result can be written to a terminal, a log or a page: it
 * contains no character that moves the cursor, reorders text or draws nothing. It is for reading only; the original cannot be restored
 * from it, because a text may contain these forms literally.
 *
 * @param options.lines - Keeps line feeds and tabs, and runs of spaces. A carriage return stays visible, also in CRLF. Without it a run of
 * spaces is shown as `␠␠`: in a path or a name it would draw another column.
 */
export function visible(text: string, { lines = false }: { lines?: boolean } = {}): string {
  const shown = replaceHidden(text, (character) =>
    lines && (character === '\n' || character === '\t') ? character : nameHidden(character),
  )
  return lines ? shown : shown.replace(/ {2,}/g, (run) => '\u2420'.repeat(run.length))
}

/** Makes a text of several lines visible. CRLF counts as a line feed; use {@link visible} where line endings matter. */
export function visibleLines(text: string): string {
  return visible(text.replaceAll('\r\n', '\n'), { lines: true })
}

const SPACES = /(?:\r\n|[\n\t\p{Zs}])+/gu
/** Placeholder for the rest, which makes the text longer than its width. */
const MORE = '  '

/**
 * Returns a text as one visible line, with each run of line feeds, tabs and spaces (every character of category Zs) shown as one space.
 *
 * @param width - Maximum length. Longer text is cut and ends with `…`.
 */
export function oneLine(text: string, width = Number.POSITIVE_INFINITY): string {
  const line = text.replace(SPACES, ' ').replace(/^ | $/g, '')
  // Each character is at least one character wide when it is visible, so the rest cannot appear.
  return cut(line.length > width ? visible(cut(line, width + 1, '')) + MORE : visible(line), width)
}
