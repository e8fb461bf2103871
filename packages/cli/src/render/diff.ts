import { createTwoFilesPatch } from 'diff'
import type { Terminal } from '../terminal.js'
import { visibleLines } from '../text.js'

export interface FileChange {
  path: string
  old_content: string
  new_content: string
  operation?: 'create' | 'modify' | 'delete' | undefined
}

/** A change as a unified diff that `git apply` takes. */
export function unifiedDiff(change: FileChange): string {
  const from = change.operation === 'create' ? '/dev/null' : `a/${change.path}`
  const to = change.operation === 'delete' ? '/dev/null' : `b/${change.path}`
  const patch = createTwoFilesPatch(from, to, change.old_content, change.new_content, undefined, undefined, { context: 3 })
  return patch.replace(/^=+\n/, '')
}

/** A unified diff for people: safe to print, added and removed lines coloured. */
export function renderDiff(change: FileChange, colors: Terminal['colors']): string {
  return visibleLines(unifiedDiff(change))
    .trimEnd()
    .split('\n')
    .map((line) => {
      if (line.startsWith('+++') || line.startsWith('---')) return colors.bold(line)
      if (line.startsWith('@@')) return colors.cyan(line)
      if (line.startsWith('+')) return colors.green(line)
      return line.startsWith('-') ? colors.red(line) : line
    })
    .join('\n')
}
