import { printableJson } from '@passover/core/text'
import { printable } from './colors.js'
import { wrap } from './wrap.js'

/**
 * The only place that writes to stdout and stderr, so that no command can print text that was not escaped (infra/check/one-writer.grit
 * forbids other writes). On a terminal it breaks long lines itself, so that no text can choose what a line begins with. The spinner and the
 * prompts draw with their own escape sequences; the text that they are given is escaped first.
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

/** Draws over the whole screen of a terminal, in place, so that nothing flickers. Disposing of it brings back what was there before. */
export function openScreen(): { draw(text: string): void } & Disposable {
  const { stdout } = process
  // The other screen, without cursor; long lines are cut at the edge.
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
