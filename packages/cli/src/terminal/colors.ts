import { randomInt } from 'node:crypto'
import { visibleLines } from '@passover/core/text'
import picocolors from 'picocolors'

export type Colors = ReturnType<typeof picocolors.createColors>

const GROUPS = 4
/**
 * Parameters that mark an SGR sequence as one of this process (`ESC [ 31 ; <seal> m`). They are random, so that text from an agent cannot
 * contain them, and short enough that libraries which measure text still take the sequence for one without width.
 */
const STYLE_MARK = Array.from({ length: GROUPS }, () => randomInt(1_000, 10_000)).join(';')
const MARKED_STYLE = new RegExp(`\u001b\\[(\\d+);${STYLE_MARK}m`)

/** Styles text like picocolors, with sequences that only {@link printable} turns into real ones. */
export function createColors(enabled: boolean): Colors {
  const plain = picocolors.createColors(false)
  if (!enabled) return plain
  const real = picocolors.createColors(true)
  const names = Object.keys(plain).filter((name): name is Exclude<keyof Colors, 'isColorSupported'> => name !== 'isColorSupported')
  return { ...real, ...Object.fromEntries(names.map((name) => [name, markedStyle(real[name])])) }
}

function markedStyle(style: (text: string) => string): (text: string | number | null | undefined) => string {
  const [open = '', close = ''] = style('|').split('|').map(markStyle)
  return (text) => open + String(text).replaceAll(close, close + open) + close
}

function markStyle(sequence: string): string {
  return sequence.replace(/(\d+)m/g, `$1;${STYLE_MARK}m`)
}

/**
 * Returns text as written to a terminal: its own styles become real SGR sequences, and all other control or hidden characters become visible.
 * Text that a caller forgot to escape can therefore neither move the cursor nor style itself.
 */
export function printable(text: string): string {
  return text
    .split(MARKED_STYLE)
    .map((part, index) => (index % 2 === 0 ? visibleLines(part) : `\u001b[${part}m`))
    .join('')
}
