import { type Bus, nodeRandom, serverClock } from '@passover/bus'
import { appliedSets, undoApplied } from '@passover/sdk'
import { agreed } from '../agreed.js'
import { renderUndone } from '../render/apply.js'
import type { Terminal } from '../terminal.js'
import { count } from '../text.js'

export interface UndoRequest {
  /** Of the pass, or the beginning of one. */
  id: string
  directory: string
  dryRun?: boolean | undefined
  yes?: boolean | undefined
}

/** Puts back what a pass changed in the directory. Exit 1: files were changed since, or not agreed. PassOverError E041: nothing is applied. */
export async function undoPass(bus: Bus, terminal: Terminal, given: UndoRequest): Promise<number> {
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
