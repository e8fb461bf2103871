/**
 * Character classes for text that people read.
 *
 * A character is hidden when it does not appear as itself: it moves the cursor, reorders its neighbours, ends a line without being a
 * line feed, or draws nothing. That covers the Unicode general category C (control, format, surrogate, private use, unassigned), the
 * line and paragraph separators, `Default_Ignorable_Code_Point` (zero-width characters, variation selectors, tag characters, fillers),
 * letters and symbols whose glyph is empty, and spaces other than U+0020. One no-break space (U+00A0, U+202F) or ideographic space
 * (U+3000) between other characters is text; next to another space or a tab it is hidden.
 */

/** Printable ASCII, tab and line feed: the usual case, decided without Unicode tables. */
const PLAIN = /^[\x20-\x7e\n\t]*$/
/**
 * Characters whose glyph is empty though Unicode classes them as visible: blank braille pattern, Egyptian hieroglyph blanks, Khitan filler,
 * null notehead, half fill space.
 */
const BLANK = '\\u2800\\u{13441}\\u{13442}\\u{16FE4}\\u{1D159}\\u303F'
const HIDDEN = `[\\p{C}\\p{Zl}\\p{Zp}\\p{Default_Ignorable_Code_Point}${BLANK}]`
/** A single one of these is common in text. */
const SINGLE = '\\u00A0\\u202F\\u3000'
const SPACE = `(?![ ${SINGLE}])\\p{Zs}|[${SINGLE}](?=[\\p{Zs}\\t])|(?<=[\\p{Zs}\\t])[${SINGLE}]`
const ANY = new RegExp(`${HIDDEN}|(?! )\\p{Zs}`, 'u')
/** Emoji sequences come first, so that their joiners and variation selectors are consumed as part of them. */
const EMOJI =
  '[#*0-9]\\uFE0F\\u20E3|\\p{Extended_Pictographic}(?:\\uFE0F|\\p{EMod})?(?:\\u200D\\p{Extended_Pictographic}(?:\\uFE0F|\\p{EMod})?)*'
const EACH = new RegExp(`${EMOJI}|${HIDDEN}|${SPACE}`, 'gu')

/** Returns true if a text contains only printable ASCII, tabs and line feeds. */
export function isPlain(text: string): boolean {
  return PLAIN.test(text)
}

/** Replaces each hidden character, tab and line feed included. Joiners and variation selectors inside an emoji are kept. */
export function replaceHidden(text: string, replace: (character: string) => string): string {
  if (PLAIN.test(text) && !/[\n\t]/.test(text)) return text
  return text.replace(EACH, (match) => (isHidden(match) ? replace(match) : match))
}

function isHidden(match: string): boolean {
  const code = match.codePointAt(0) ?? 0
  return match.length === (code > 0xffff ? 2 : 1) && ANY.test(match)
}

/** Code points with a picture of their own in the block Control Pictures: U+0000 to U+001F and DEL. */
const PICTURES = 0x2400
const DELETE = 0x7f
const DELETE_PICTURE = '\u2421'

/** Returns the visible form of a hidden character: `␛` for C0 controls and DEL, `<U+202E>` for all others. */
export function nameHidden(character: string): string {
  const code = character.codePointAt(0) ?? 0
  if (code < 0x20) return String.fromCodePoint(PICTURES + code)
  return code === DELETE ? DELETE_PICTURE : `<U+${code.toString(16).toUpperCase().padStart(4, '0')}>`
}

/**
 * Lists the hidden characters of a text, each once, in order of appearance and by their visible form (`␍`, `<U+202E>`).
 * Line feeds, tabs and carriage returns that belong to a CRLF are not listed.
 */
export function hiddenIn(text: string): string[] {
  if (PLAIN.test(text)) return []
  const found = new Set<string>()
  replaceHidden(text.replaceAll('\r\n', '\n'), (character) => {
    if (character !== '\n' && character !== '\t') found.add(nameHidden(character))
    return character
  })
  return [...found]
}
