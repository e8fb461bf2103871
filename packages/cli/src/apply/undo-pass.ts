import { type Bus, nodeRandom, serverClock } from '@passover/bus'
import { PassOverError } from '@passover/core'
import { appliedSets, undoApplied } from '@passover/sdk'
import { agreed } from '../agreed.js'
import { CliFailure } from '../failure.js'
import { renderUndone } from '../render/apply.js'
import type { Terminal } from '../terminal.js'
import { count, shellWord } from '../text.js'

export interface UndoRequest {
  /** Of the pass, or the beginning of one. */
  id: string
  directory: string
  dryRun?: boolean | undefined
  yes?: boolean | undefined
}

/** Puts back what a pass changed in the directory. Exit 0: they are as before (now, or by an earlier undo); 1: files were changed since, or not agreed. PassOverError E041: nothing is applied. */
export async function undoPass(bus: Bus, terminal: Terminal, given: UndoRequest): Promise<number> {
  try {
    return await undo(bus, terminal, given)
  } catch (error) {
    if (!(error instanceof PassOverError) || error.code !== 'E041') throw error
    const { id = given.id, undone_by, undone_at } = error.context ?? {}
    const { directory } = given
    if (undone_by === undefined) {
      const hint = `what a pass changed is undone in the directory where it was applied (--directory); passover show ${shellWord(given.id)} tells more`
      throw new CliFailure('E041', error.message, { hint })
    }
    terminal.show(
      { id, directory, undone: [], conflicts: [], undone_by, undone_at },
      () => `${error.message}: nothing is left to put back.`,
    )
    return 0
  }
}

async function undo(bus: Bus, terminal: Terminal, given: UndoRequest): Promise<number> {
  const { directory } = given
  const sets = await appliedSets(directory, given.id)
  const id = sets[0]?.id ?? given.id
  const paths = [...new Set(sets.flatMap(({ intent }) => intent?.files.map(({ path }) => path) ?? []))]
  if (given.dryRun) {
    terminal.show({ id, directory, dry_run: true, would_undo: paths }, () => `Would put back ${paths.join(', ')}.`)
    return 0
  }
  if (!given.yes && terminal.interactive && !(await agreed(`Put back ${count(paths.length, 'file')} in ${directory}?`))) return 1
  const home = { deps: { bus, clock: serverClock(bus), random: nodeRandom }, as: 'person' as const, directory }
  const undone = await undoApplied(home, { id, undone_by: bus.identity })
  terminal.show({ id, directory, ...undone }, () => renderUndone(undone, terminal.colors))
  return undone.conflicts.length > 0 ? 1 : 0
}
