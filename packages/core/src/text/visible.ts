import { cut } from './cut.js'
import { nameHidden, replaceHidden } from './hidden.js'

/**
 * Makes every hidden character of a text visible: `␛`, `␍`, `<U+202E>`. The result can be written to a terminal, a log or a page: it
 * contains no character that moves the cursor, reorders text or draws nothing. It is for reading only; the original cannot be restored
 * from it, because a text may contain these forms literally.
 *
 * @param options.lines - Keeps line feeds and tabs. A carriage return stays visible, also in CRLF.
 */
export function visible(text: string, options: { lines?: boolean } = {}): string {
  const keeps = options.lines === true
  return replaceHidden(text, (character) => (keeps && (character === '\n' || character === '\t') ? character : nameHidden(character)))
}

/** Makes a text of several lines visible. CRLF counts as a line feed; use {@link visible} where line endings matter. */
export function visibleLines(text: string): string {
  return visible(text.replaceAll('\r\n', '\n'), { lines: true })
}

const SPACES = /(?:\r\n|[\n\t ])+/g
/** Placeholder for the rest, which makes the text longer than its width. */
const MORE = '  '

/**
 * Returns a text as one visible line, with runs of line feeds, tabs and spaces shown as one space.
 *
 * @param width - Maximum length. Longer text is cut and ends with `…`.
 */
export function oneLine(text: string, width = Number.POSITIVE_INFINITY): string {
  const line = text.replace(SPACES, ' ').replace(/^ | $/g, '')
  // Each character is at least one character wide when it is visible, so the rest cannot appear.
  return cut(visible(line.length > width ? cut(line, width + 1, '') + MORE : line), width)
}
