import { visibleLines } from '@passover/core'

/** Writes a line for people to stderr, with control and hidden characters made visible. */
export function say(line: string): void {
  process.stderr.write(`${visibleLines(line)}\n`)
}
