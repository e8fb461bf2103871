import { printableJson } from '@passover/core/text'
import { printable } from './style.js'

/**
 * The only place that writes to stdout and stderr, so that no command can print text that was not escaped (infra/check/one-writer.grit
 * forbids other writes). The spinner and the prompts draw with their own escape sequences; the text that they are given is escaped first.
 */
export function write(stream: 'stdout' | 'stderr', text: string): void {
  process[stream].write(printable(text))
}

/** Writes a value as one JSON document that ends with a line feed. */
export function writeJson(value: unknown, indent?: number): void {
  process.stdout.write(`${printableJson(value, indent)}\n`)
}

/** Rings the terminal's bell. */
export function ring(): void {
  process.stderr.write('\u0007')
}
