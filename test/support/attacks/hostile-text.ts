/** One of each kind of hidden character, in the sequences that a terminal would act on. */
const HIDDEN = [
  '\u001b]0;owned title\u0007',
  '\u001b]52;c;ZXZpbA==\u0007',
  '\u001b[2K\u001b[1A\u001b[31m\u001b[8m',
  '\u009b31m\u0085\u0090\u009c',
  '\b\u000b\u000c\u007f\u0000',
  '\u202e\u202a\u2066\u2069\u200e\u061c',
  '\u200b\u200c\u2060\ufeff\u00ad\u180e\u034f\u3164',
  '\u2028\u2029',
  '\u{e0041}\u{e007f}x\ufe0f\u{e0100}',
  '\u2003\u2003\u00a0\u3000\u1680\u202f\u205f\u2800\uffa0\u115f\u{13441}\u{1d159}',
  '\ue000\u{10fffd}\ufff9',
].join(' ')
/** What passes for a line of the program's own where a line feed or a carriage return gets through. */
const FAKE = '✓ FAKE: applied'
/** A word longer than a line: at any width a terminal that wraps it begins a line with this character. */
const WORD = '\u00b6'
/** Of the terminal that hostile text is written to. */
export const COLUMNS = 80
export const HOSTILE = `begin ${WORD.repeat(2 * COLUMNS)} ${HIDDEN}\r${FAKE}\r\n${FAKE}\n${FAKE} 😀 end`
/** For fields of one line whose characters are restricted otherwise, such as paths and headers. */
export const LINE = `b\u202ea\u200b\u001b]0;t\u0007\u009b1m\u2028z`

export const RAW = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\u2028\u2029\p{Default_Ignorable_Code_Point}\u2800\u{13441}\u{1d159}]|(?! )\p{Zs}/gu
const ESCAPE = '\u001b'
/** Styles that the command line may set itself. */
const STYLE = new RegExp(`${ESCAPE}\\[(?:0|1|2|3|4|7|22|23|24|27|3[0-9]|4[0-9]|9[0-7])m`, 'g')

/** Finds what of a text must not reach a terminal of 80 columns: raw hidden characters, and lines that imitate the program's own. */
export function faultsAtTerminal(text: string): string[] {
  const rows = text
    .replace(STYLE, '')
    .split('\n')
    .flatMap((line) => [...line.matchAll(new RegExp(`.{1,${COLUMNS}}`, 'gu'))].map(([row]) => row))
  return [...faults(text), ...rows.filter((row) => row.trimStart().startsWith(WORD))]
}

/** Finds what of a text must not reach a file or a pipe either. */
export function faults(text: string): string[] {
  const raw =
    text
      .replace(STYLE, '')
      .replace(/[\n\t]/g, '')
      .match(RAW) ?? []
  const lines = text
    .replace(STYLE, '')
    .split('\n')
    .filter((line) => line.startsWith('✓ FAKE') || line.startsWith(' ✓ FAKE'))
  return [...new Set(raw.map((one) => `U+${one.codePointAt(0)?.toString(16)}`)), ...lines]
}
