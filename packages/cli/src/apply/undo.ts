import { type Bus, nodeRandom, serverClock } from '@passover/bus'
import { PassOverError } from '@passover/core'
import { visible } from '@passover/core/text'
import { askNameVerification } from '@passover/operator'
import { appliedSets, interruptedSets, undoApplied } from '@passover/sdk/internal'
import { formatPerson } from '../connection/verified-names.js'
import { CliFailure, DECLINED } from '../errors.js'
import { confirmAction } from '../input/confirm.js'
import { ago } from '../terminal/duration.js'
import type { Terminal } from '../terminal/terminal.js'
import { count, shellWord } from '../terminal/text.js'
import { renderInterrupted, renderUndone } from './render.js'

export interface UndoRequest {
  /** Id of the pass, or its first characters. */
  id: string
  directory: string
  dryRun?: boolean | undefined
  yes?: boolean | undefined
}

/**
 * Restores the files that a pass changed in the directory.
 *
 * @returns 0 if they are as before (now, or by an earlier undo); 1 if files were changed since, or the person says no
 * @throws CliFailure E041 if nothing is applied
 */
export async function undoPass(bus: Bus, terminal: Terminal, given: UndoRequest): Promise<number> {
  try {
    return await undo(bus, terminal, given)
  } catch (error) {
    if (!(error instanceof PassOverError) || error.code !== 'E041') throw error
    const { id = given.id, undone_by, undone_at } = error.context ?? {}
    const { directory } = given
    if (undone_by === undefined) {
      const hint = `run undo in the directory where the changes were applied, or name it with --directory; passover show ${shellWord(given.id)} shows details`
      throw new CliFailure('E041', error.message, { hint })
    }
    const names = (await askNameVerification(bus)) ?? {}
    const by = formatPerson(String(undone_by), names)
    terminal.show(
      { id, directory, undone: [], conflicts: [], undone_by, undone_at, ...names },
      () => `${id} was already undone by ${by} ${ago(Number(undone_at), bus.now())}: nothing to restore.`,
    )
    return 0
  }
}

async function undo(bus: Bus, terminal: Terminal, given: UndoRequest): Promise<number> {
  const { directory } = given
  const half = (await interruptedSets(directory)).filter((set) => set.id.startsWith(given.id) && set.kind === 'apply')
  const applied = await appliedSets(directory, given.id).catch((error: unknown) => {
    const isNothing = error instanceof PassOverError && error.code === 'E041' && error.context?.undone_by === undefined
    // Only a recovery can determine what an interrupted application wrote.
    if (isNothing && (half.length > 0 || !given.dryRun)) return []
    throw error
  })
  const id = applied[0]?.id ?? half[0]?.id ?? given.id
  const written = half.flatMap((set) => set.written)
  const paths = [...new Set([...written, ...applied.flatMap(({ intent }) => intent?.files.map(({ path }) => path) ?? [])])]
  for (const line of renderInterrupted(half, terminal.noteColors)) terminal.note(line)
  if (given.dryRun) {
    terminal.show(
      { id, directory, dry_run: true, interrupted: half, would_undo: paths },
      () => `Would restore ${paths.map((path) => visible(path)).join(', ')}.`,
    )
    return 0
  }
  if (
    !given.yes &&
    paths.length > 0 &&
    terminal.interactive &&
    !(await confirmAction(`Restore ${count(paths.length, 'file')} in ${directory}?`))
  )
    return DECLINED
  const home = { deps: { bus, clock: serverClock(bus), random: nodeRandom }, as: 'person' as const, directory }
  const undone = await undoApplied(home, { id, undone_by: bus.identity })
  terminal.show({ id, directory, ...undone }, () => renderUndone(undone, terminal.colors))
  return undone.conflicts.length > 0 ? 1 : 0
}
