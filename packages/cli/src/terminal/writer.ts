import { printableJson } from '@passover/core/text'
import { printable } from './colors.js'
import { wrap } from './wrap.js'

/**
 * The only place that writes to stdout and stderr, so that no command can print unescaped text (infra/check/one-writer.grit forbids other writes). On
 * a terminal it wraps long lines itself, so that no text can control the start of a line. The spinner and the prompts draw with their own escape
 * sequences; their text is escaped first.
 */
export function write(stream: 'stdout' | 'stderr', text: string): void {
  const { isTTY, columns } = process[stream]
  const shown = printable(text)
  process[stream].write(isTTY && columns > 0 ? wrap(shown, columns) : shown)
}

/** Writes a value as one JSON document that ends with a line feed. */
export function writeJson(value: unknown, indent?: number): void {
  process.stdout.write(`${printableJson(value, indent)}\n`)
}

/** Rings the terminal's bell. */
export function ringBell(): void {
  process.stderr.write('\u0007')
}

/** Draws over the whole screen in place, without flicker. Disposing of it restores the previous content. */
export function openScreen(): { draw(text: string): void } & Disposable {
  const { stdout } = process
  // Switches to the alternate screen, hides the cursor, and disables line wrapping.
  stdout.write('\u001b[?1049h\u001b[?25l\u001b[?7l')
  const leave = () => void stdout.write('\u001b[?7h\u001b[?25h\u001b[?1049l')
  process.once('exit', leave)
  return {
    draw(text) {
      const lines = printable(text)
        .split('\n')
        .slice(0, stdout.rows || 24)
      stdout.write(`\u001b[H${lines.map((line) => `${line}\u001b[K`).join('\n')}\u001b[J`)
    },
    [Symbol.dispose]() {
      process.off('exit', leave)
      leave()
    },
  }
}
