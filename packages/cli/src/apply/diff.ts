import { visible } from '@passover/core/text'
import type { ShownFile } from '@passover/schemas'
import type { Terminal } from '../terminal/terminal.js'
import { count, sizeText } from '../terminal/text.js'

/**
 * Renders what is written to one file: its warnings, then the diff with every hidden character visible, or the reason why there is none.
 * Omits carriage returns if every line on both sides ends in CRLF; otherwise shows them as `␍`.
 */
export function renderFile(file: ShownFile, colors: Terminal['colors']): string {
  const warnings = file.warnings.map(({ message }) => colors.yellow(`! ${visible(message)}`))
  return [...warnings, ...contentLines(file, colors)].join('\n')
}

function contentLines(file: ShownFile, colors: Terminal['colors']): string[] {
  const { diff, omitted } = file
  if (diff !== undefined) return renderDiff(diff, colors)
  const why = omitted === 'binary' ? 'binary content' : 'too many changed lines for a diff; --whole shows the whole file'
  return [colors.yellow(`  ${why}`), ...sides(file).map((line) => colors.dim(`  ${line}`))]
}

function sides({ before, after }: ShownFile): string[] {
  return [sideLine('before', before), sideLine('after', after)]
}

function sideLine(name: string, side: ShownFile['before']): string {
  if (!side) return `${name.padEnd(6)} no file`
  return `${name.padEnd(6)} ${side.type === undefined ? 'text' : visible(side.type)}, ${sizeText(side.size)}, sha256 ${side.sha256}`
}

const HEADER_LINES = 2

function renderDiff(diff: string, colors: Terminal['colors']): string[] {
  const lines = diff.replace(/\n$/, '').split('\n')
  const isContent = (line: string) => /^[ +-]/.test(line)
  const content = lines.slice(HEADER_LINES).filter(isContent)
  const crlf =
    content.length > 0 && lines.slice(HEADER_LINES).every((line, at) => !isContent(line) || endsInCrlf(line, lines[HEADER_LINES + at + 1]))
  return lines.map((line, at) => {
    if (at < HEADER_LINES) return colors.bold(visible(line))
    const shown = visible(crlf && isContent(line) && line.endsWith('\r') ? line.slice(0, -1) : line, { lines: true })
    if (line.startsWith('@@')) return colors.cyan(shown)
    if (line.startsWith('+')) return colors.green(shown)
    return line.startsWith('-') ? colors.red(shown) : shown
  })
}

/** True if a line ends in CRLF. The last line of a file may have no line ending at all. */
function endsInCrlf(line: string, next: string | undefined): boolean {
  return next?.startsWith('\\') ? !line.endsWith('\r') : line.endsWith('\r')
}

/** Counts the files with warnings, for example `2 files with warnings`. Returns `undefined` if there are none. */
export function countWarnings(files: readonly Pick<ShownFile, 'warnings'>[]): string | undefined {
  const warned = files.filter(({ warnings }) => warnings.length > 0).length
  return warned === 0 ? undefined : `${count(warned, 'file')} with warnings`
}
