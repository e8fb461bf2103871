import { PassOverError } from '@passover/core'
import { type AppliedBody, type PassKey, WIRE_VERSION } from '@passover/schemas'
import { readFileStates } from './files/file-state.js'
import { removeFolders, versionOf } from './files/file-swap.js'
import { bytesBefore, runChangeSet } from './journal/change-set.js'
import { leftoversText } from './journal/leftovers.js'
import { lockDirectory } from './journal/lock.js'
import { type ApplyContext, publishApplied, type RecoveredSet, recoverLocked } from './journal/recover.js'
import { type Intent, listSets, openHome, type StoredSet } from './journal/undo-journal.js'
import type { Change } from './plan/plan.js'

export interface UndoResult {
  key: PassKey
  /** Paths whose content from before the application was restored. */
  undone: string[]
  /** Files that changed since. If there is one, nothing of its set is restored. */
  conflicts: { path: string; why: string }[]
  /** False if the event is not stored yet. The next apply or undo in this directory stores it. */
  recorded: boolean
  settled: RecoveredSet[]
}

/**
 * Returns the applied sets of a pass in a directory that can be undone, newest first. `id` may be a prefix. Throws E041 if there is none, and E042 if
 * several passes match.
 */
export async function appliedSets(directory: string, id: string): Promise<StoredSet[]> {
  await using folder = await openHome(directory, 'only_look')
  const sets = folder ? await listSets(directory, folder) : []
  return standing(sets, { directory, id })
}

function appliedIn(sets: StoredSet[], id: string): StoredSet[] {
  const gone = new Set(sets.flatMap(({ intent, applied }) => (intent?.kind === 'undo' && applied ? [intent.undoes] : [])))
  return sets.filter((set) => set.id.startsWith(id) && set.intent?.kind === 'apply' && set.applied && !gone.has(set.nonce))
}

function standing(sets: StoredSet[], { directory, id }: { directory: string; id: string }): StoredSet[] {
  const applied = appliedIn(sets, id)
  const ids = new Set(applied.map(({ intent }) => intent && `${intent.key.id} (${intent.key.originator} → ${intent.key.subagent})`))
  if (ids.size === 0) throw nothingApplied(sets, { directory, id })
  if (ids.size > 1) throw new PassOverError('E042', `several passes have an id that starts with ${id}: ${[...ids].join(', ')}`, { id })
  return applied.reverse()
}

/** Returns the error if nothing is applied. If it was undone already, the error names who did it. */
function nothingApplied(sets: StoredSet[], { directory, id }: { directory: string; id: string }): PassOverError {
  const undone = sets.findLast((set) => set.id.startsWith(id) && set.intent?.kind === 'undo' && set.applied)
  if (!undone?.intent) return new PassOverError('E041', `no changes of ${id} were applied in ${directory}`, { id })
  const { applied_by: undone_by, applied_at: undone_at } = undone.intent.event
  const when = new Date(undone_at).toISOString()
  return new PassOverError('E041', `${undone.id} was already undone by ${undone_by} at ${when}`, { id: undone.id, undone_by, undone_at })
}

/**
 * Restores the files that a pass changed in the directory, if every file still has the applied content. Undoes the newest set first, each completely
 * or not at all. Recorded as an `applied` event with `undone`. An application that a killed process left incomplete is rolled back.
 *
 * @throws PassOverError with code E041: there is nothing to undo, or it was undone already (`undone_by`).
 */
export async function undoApplied(context: ApplyContext, { id, undone_by }: { id: string; undone_by: string }): Promise<UndoResult> {
  const { directory } = context
  await using folder = await openHome(directory, 'only_look')
  if (!folder) throw new PassOverError('E041', `no changes of ${id} were applied in ${directory}`, { id })
  await using _lock = await lockDirectory(context.deps, folder)
  const earlier = await listSets(directory, folder)
  const settled = await recoverLocked(context, folder)
  const now = await listSets(directory, folder)
  const rolledBack = settled.filter((one) => one.id.startsWith(id) && one.outcome === 'put_back' && one.kind === 'apply')
  const sets = rolledBack.length > 0 ? appliedIn(now, id) : standing(now, { directory, id })
  const key = [...sets, ...earlier].find((set) => set.id.startsWith(id) && set.intent)?.intent?.key
  if (!key) throw new PassOverError('E041', `no changes of ${id} were applied in ${directory}`, { id })
  const result: UndoResult = { key, undone: [], conflicts: [], recorded: true, settled }
  for (const { restored = [], left = [] } of rolledBack) {
    result.undone.push(...restored)
    result.conflicts.push(
      ...left.map(({ path, kept }) => ({ path, why: `it was changed since${kept ? `; its earlier content is ${kept}` : ''}` })),
    )
  }
  if (result.conflicts.length > 0) return result
  for (const set of sets) {
    if (!set.intent) continue
    await undoSet(context, { set, intent: set.intent, undone_by }, result)
    if (result.conflicts.length > 0) break
  }
  return result
}

async function undoSet(
  context: ApplyContext,
  { set, intent, undone_by }: { set: StoredSet; intent: Intent; undone_by: string },
  result: UndoResult,
): Promise<void> {
  const { deps, directory } = context
  for (const file of intent.files) {
    if ((await versionOf(directory, file)) !== 'after') result.conflicts.push({ path: file.path, why: 'it was changed since' })
  }
  if (result.conflicts.length > 0) return
  const changes = await backwards(directory, set, intent)
  const at = deps.clock.now()
  const paths = changes.map(({ path }) => path)
  const nonce = Buffer.from(deps.random.bytes(12)).toString('hex')
  const { digests } = intent.event
  const body: AppliedBody = { v: WIRE_VERSION, applied_by: undone_by, applied_at: at, applied: paths, rejected: [], nonce }
  const event: AppliedBody = { ...body, undone: true, ...(digests && { digests }) }
  const done = await runChangeSet(context, { kind: 'undo', nonce, undoes: set.nonce, key: intent.key, at, changes, event })
  if (!done.ok) {
    result.conflicts.push({ path: done.path, why: `${done.why}${leftoversText(done.left)}` })
    return
  }
  await removeFolders(directory, intent.made)
  result.undone.push(...paths)
  if (!(await publishApplied(context, done.set))) result.recorded = false
}

async function backwards(directory: string, set: StoredSet, { files }: Intent): Promise<Change[]> {
  const view = await readFileStates(
    directory,
    files.map(({ path }) => path),
  )
  const changes: Change[] = []
  for (const [index, { path, before }] of files.entries()) {
    const now = view.get(path)
    const after = before && { bytes: await bytesBefore(directory, set, index), mode: before.mode, owner: before.owner }
    changes.push({ path, before: now?.kind === 'file' ? { bytes: now.bytes, mode: now.mode } : undefined, after })
  }
  return changes
}
