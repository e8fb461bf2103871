import type { NumberedModification } from '@passover/core'
import type { Applied, NotApplied, Plan, Planned, Sides, Undone } from '@passover/sdk'
import type { Terminal } from '../terminal.js'
import { count, visible } from '../text.js'
import { renderDiff } from './diff.js'

interface View {
  colors: Terminal['colors']
  all: readonly NumberedModification[]
}

/** What would become of each modification: its diff, or the three sides of its conflict. */
export function renderPlan({ items }: Pick<Plan, 'items'>, view: View): string {
  const { colors, all } = view
  const blocks = all.map(({ number, modification }) => {
    const item = items.find((one) => one.number === number)
    const title = `${colors.bold(`${number}  ${visible(modification.path)}`)}  ${verdictOf(item, colors)}`
    if (!item) return title
    if (item.verdict === 'conflict') return `${title}\n${renderSides(item.path, item.sides, colors)}`
    return `${title}\n${modification.encoding === 'base64' ? colors.dim('  (given as base64)') : renderDiff(modification, colors)}`
  })
  const stopped = items.filter(({ verdict }) => verdict === 'conflict' || verdict === 'refused').length
  if (stopped > 0) {
    const rest = items.length > stopped ? '; the others are applied with --only' : ''
    blocks.push(colors.red(`${count(stopped, 'change')} in the way, so nothing was written: a set is applied whole or not at all${rest}.`))
  }
  return blocks.join('\n\n')
}

function verdictOf(item: Planned | undefined, colors: Terminal['colors']): string {
  if (!item) return colors.dim('rejected')
  if (item.verdict === 'ready') return colors.green(item.operation)
  if (item.verdict === 'already') return colors.dim('as proposed already')
  return colors.red(`${item.verdict === 'conflict' ? 'conflict' : 'refused'}: ${visible(item.why)}`)
}

/** What was proposed, and what happened to the file meanwhile. */
function renderSides(path: string, { old_content, current, new_content, encoding }: Sides, colors: Terminal['colors']): string {
  if (encoding === 'base64') return colors.dim('  (binary)')
  const proposed = renderDiff({ path, old_content, new_content }, colors)
  const meanwhile =
    current === undefined ? colors.dim('(it is not there)') : renderDiff({ path, old_content, new_content: current }, colors)
  return `${colors.dim('What is proposed:')}\n${proposed}\n${colors.dim('What was changed since the subagent saw it:')}\n${meanwhile}`
}

function renderSettled(settled: Applied['settled'], colors: Terminal['colors']): string[] {
  return settled.map((one) => `${colors.yellow('!')} ${saySettled(one)}`)
}

function saySettled({ id, kind, outcome, left = [] }: Applied['settled'][number]): string {
  if (outcome === 'ignored') return `.passover/apply has a record of ${visible(id)} that you did not make here: it is ignored (delete it)`
  const what = kind === 'undo' ? 'an undo' : 'an application'
  const sentence = `${what} of ${id} had been interrupted and was ${outcome === 'finished' ? 'finished' : 'put back'}`
  if (left.length === 0) return sentence
  const files = left.map(({ path, kept }) =>
    kept === undefined
      ? visible(path)
      : `${visible(path)} (what stood there before: ${visible(kept)}; delete it when you are done with it)`,
  )
  return `${sentence}, but for what was changed since: ${files.join(', ')}`
}

/** What was done. */
export function renderApplied(applied: Applied, view: View & { id: string }): string {
  const { colors } = view
  const lines = [
    ...renderSettled(applied.settled, colors),
    ...applied.applied.map((path) => `${colors.green('✓')} ${visible(path)}`),
    ...applied.already.map((path) => `${colors.dim('=')} ${visible(path)} was so already`),
    ...applied.conflicts.map((conflict) => renderConflict(conflict, colors)),
    ...applied.held_back.map((path) => `${colors.dim('–')} ${visible(path)} was left out with them`),
    ...applied.rejected.map((path) => `${colors.dim('–')} ${visible(path)} rejected`),
    sentenceOf(applied, view.id),
  ]
  if (!applied.recorded) lines.push(colors.yellow('The record could not be stored yet; the next apply or undo here stores it.'))
  return lines.join('\n')
}

function renderConflict({ path, kind, why, sides }: NotApplied, colors: Terminal['colors']): string {
  const title = `${colors.red('✗')} ${visible(path)} ${kind}: ${visible(why)}`
  return sides ? `${title}\n${renderSides(path, sides, colors)}` : title
}

function sentenceOf({ applied, conflicts, applied_by }: Applied, id: string): string {
  if (conflicts.length > 0) return 'Nothing was written.'
  if (applied.length === 0) return 'There is nothing to do.'
  return `Applied ${count(applied.length, 'change')}, approved by ${applied_by}. Put back: passover undo ${id}`
}

/** What was put back. */
export function renderUndone({ undone, conflicts, recorded, settled }: Undone, colors: Terminal['colors']): string {
  const lines = [
    ...renderSettled(settled, colors),
    ...undone.map((path) => `${colors.green('✓')} ${visible(path)} is as it was`),
    ...conflicts.map(({ path, why }) => `${colors.red('✗')} ${visible(path)}: ${visible(why)}`),
  ]
  if (conflicts.length > 0) lines.push('What was changed since is not put back, nor what was applied together with it.')
  if (!recorded) lines.push(colors.yellow('The record could not be stored yet; the next apply or undo here stores it.'))
  return lines.join('\n')
}
