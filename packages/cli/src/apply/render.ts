import type { NumberedModification } from '@passover/core'
import { contentBytes, showFiles } from '@passover/core/changes'
import { visible } from '@passover/core/text'
import type { ShownFile } from '@passover/schemas'
import type { Applied } from '@passover/sdk'
import type { ConflictVersions, InterruptedSet, NotApplied, Plan, PlannedChange, UndoResult } from '@passover/sdk/internal'
import type { Terminal } from '../terminal/terminal.js'
import { count, formatCommands } from '../terminal/text.js'
import { renderFile } from './diff.js'

interface View {
  colors: Terminal['colors']
  all: readonly NumberedModification[]
}

interface PlanWithFiles {
  plan: Pick<Plan, 'items'>
  /** Combined effect of the selected changes on each file. */
  files: readonly ShownFile[]
}

/** Renders each file's combined diff with warnings, for a conflict also what changed in the file since; then the rejected changes. */
export function renderPlan({ plan: { items }, files }: PlanWithFiles, view: View & { digest?: string }): string {
  const { colors, all, digest } = view
  const blocks = files.map((file) => {
    const own = items.filter(({ number }) => file.numbers.includes(number))
    const title = `${colors.bold(`${file.numbers.join(', ')}  ${visible(file.path)}`)}  ${verdicts(own, colors)}`
    const sides = own.flatMap((item) => (item.verdict === 'conflict' ? [renderMeanwhile(item.path, item.sides, colors)] : []))
    return [title, renderFile(file, colors), ...sides].join('\n')
  })
  const rejected = all.filter(({ number }) => !items.some((item) => item.number === number))
  blocks.push(
    ...rejected.map(({ number, modification }) => `${colors.bold(`${number}  ${visible(modification.path)}`)}  ${colors.dim('rejected')}`),
  )
  const stopped = items.filter(({ verdict }) => verdict === 'conflict' || verdict === 'refused').length
  if (stopped > 0) {
    const rest = items.length > stopped ? '; use --only to apply the other changes' : ''
    blocks.push(
      colors.red(
        `${count(stopped, 'change')} cannot be applied, so nothing was written: either all changes of a pass are applied or none${rest}.`,
      ),
    )
    blocks.push(conflictHint(items))
  }
  if (digest !== undefined) blocks.push(colors.dim(`Digest of these changes: ${digest}`))
  return blocks.join('\n\n')
}

/** Returns the next steps for changes that cannot be written. */
function conflictHint(items: readonly PlannedChange[]): string {
  const conflict = items.some(({ verdict }) => verdict === 'conflict')
  const refused = items.some(({ verdict }) => verdict === 'refused')
  return [
    ...(conflict
      ? [
          'Next: restore the file to the version that the subagent saw (the - lines) and apply again, make the change by hand, or request the work again.',
        ]
      : []),
    ...(refused
      ? ['Refused changes are never written. Next: request the work again, and name the files that may change in the objective.']
      : []),
  ].join('\n')
}

/** Renders the changes that an approval covers, based on the files as the subagent saw them. Used where the working directory is not at hand. */
export function renderReview(files: readonly ShownFile[], { colors, all }: View): string {
  const taken = files.flatMap(({ numbers }) => numbers)
  const blocks = files.map((file) => {
    const title = `${colors.bold(`${file.numbers.join(', ')}  ${visible(file.path)}`)}  ${colors.green(file.operation)}`
    return `${title}\n${renderFile(file, colors)}`
  })
  const rejected = all.filter(({ number }) => !taken.includes(number))
  blocks.push(
    ...rejected.map(({ number, modification }) => `${colors.bold(`${number}  ${visible(modification.path)}`)}  ${colors.dim('rejected')}`),
  )
  return blocks.join('\n\n')
}

/** Lists the distinct verdicts of a file's changes. */
function verdicts(items: readonly PlannedChange[], colors: Terminal['colors']): string {
  return [...new Set(items.map((item) => verdictOf(item, colors)))].join(', ')
}

function verdictOf(item: PlannedChange, colors: Terminal['colors']): string {
  if (item.verdict === 'ready') return colors.green(item.operation)
  if (item.verdict === 'already') return colors.dim('as proposed already')
  return colors.red(`${item.verdict === 'conflict' ? 'conflict' : 'refused'}: ${visible(item.why)}`)
}

/** Renders what changed in the file since the subagent saw it. */
function renderMeanwhile(path: string, { old_content, current, encoding }: ConflictVersions, colors: Terminal['colors']): string {
  const title = colors.dim('Changes in the file since the subagent saw it:')
  if (current === undefined) return `${title}\n${colors.dim('(the file does not exist)')}`
  const side = (content: string) => ({ bytes: contentBytes(content, { encoding }) })
  const shown = showFiles([{ path, numbers: [], reasons: [], before: side(old_content), after: side(current) }])
  return [title, ...shown.map((file) => renderFile({ ...file, warnings: [] }, colors))].join('\n')
}

/** Renders what a killed process left in the directory and how it was recovered. */
export function renderSettled(settled: Applied['settled'], colors: Terminal['colors']): string[] {
  return settled.map((one) => `${colors.yellow('!')} ${settledText(one)}`)
}

/** Renders unfinished applications and undos. Their process may still be running, or was killed. */
export function renderInterrupted(found: readonly InterruptedSet[], colors: Terminal['colors']): string[] {
  return found.map(({ id, kind, written, total }) => {
    const what = kind === 'undo' ? 'an undo' : 'an application'
    const then = 'if its process was killed, the next apply or undo in this directory recovers it first'
    return `${colors.yellow('!')} ${what} of ${visible(id)} is not finished: ${written.length} of ${count(total, 'file')} written; ${then}`
  })
}

function settledText({ id, kind, outcome, restored = [], left = [] }: Applied['settled'][number]): string {
  if (outcome === 'ignored')
    return `.passover/apply has a record of ${visible(id)} that you did not create in this directory; Passover ignores it (delete it)`
  const what = kind === 'undo' ? 'an undo' : 'an application'
  const rolledBack = restored.length > 0 ? `rolled back (${count(restored.length, 'file')})` : 'rolled back'
  const sentence = `${what} of ${visible(id)} was interrupted and has been ${outcome === 'finished' ? 'finished' : rolledBack}`
  if (left.length === 0) return sentence
  const files = left.map(({ path, kept }) =>
    kept === undefined ? visible(path) : `${visible(path)} (previous content: ${visible(kept)}; delete it when you no longer need it)`,
  )
  return `${sentence}, except files that were changed since then: ${files.join(', ')}`
}

/** Renders the result of an application. */
export function renderApplied(applied: Applied, view: View & { id: string; by: string }): string {
  const { colors } = view
  const lines = [
    ...renderSettled(applied.settled, colors),
    ...applied.applied.map((path) => `${colors.green('✓')} ${visible(path)}`),
    ...applied.already.map((path) => `${colors.dim('=')} ${visible(path)} already had this content`),
    ...applied.conflicts.map((conflict) => renderConflict(conflict, colors)),
    ...applied.held_back.map((path) => `${colors.dim('–')} ${visible(path)} not applied, because of the conflicts`),
    ...applied.rejected.map((path) => `${colors.dim('–')} ${visible(path)} rejected`),
    sentenceOf(applied, view),
  ]
  if (!applied.recorded)
    lines.push(colors.yellow('The record could not be stored yet; the next apply or undo in this directory stores it.'))
  return lines.join('\n')
}

function renderConflict({ path, kind, why, sides }: NotApplied, colors: Terminal['colors']): string {
  const title = `${colors.red('✗')} ${visible(path)} ${kind}: ${visible(why)}`
  return sides ? `${title}\n${renderMeanwhile(path, sides, colors)}` : title
}

function sentenceOf({ applied, conflicts }: Applied, { id, by }: { id: string; by: string }): string {
  if (conflicts.length > 0)
    return formatCommands(`Nothing was applied. To compare the files with the changes: passover apply ${id} --dry-run`)
  if (applied.length === 0) return 'Nothing to do.'
  return `Applied ${count(applied.length, 'change')}, approved by ${by}. ${formatCommands(`To undo: passover undo ${id}`)}`
}

/** Renders the result of an undo. */
export function renderUndone({ undone, conflicts, recorded, settled }: UndoResult, colors: Terminal['colors']): string {
  const lines = [
    ...renderSettled(settled, colors),
    ...undone.map((path) => `${colors.green('✓')} ${visible(path)} restored`),
    ...conflicts.map(({ path, why }) => `${colors.red('✗')} ${visible(path)}: ${visible(why)}`),
  ]
  if (conflicts.length > 0)
    lines.push('Files without ✓ were not changed. Next: revert the later changes in them and undo again, or edit them by hand.')
  if (!recorded) lines.push(colors.yellow('The record could not be stored yet; the next apply or undo in this directory stores it.'))
  return lines.join('\n')
}
