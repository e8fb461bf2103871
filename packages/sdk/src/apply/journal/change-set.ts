import { readRegularFile } from '@passover/bus'
import { PassOverError } from '@passover/core'
import { type AppliedBody, type PassKey, sha256 } from '@passover/schemas'
import type { Deps } from '../../runtime/dependencies.js'
import { codeOf, DirectoryHandle } from '../files/directory-handle.js'
import { MAX_FILE_BYTES, ownerOf } from '../files/file-state.js'
import { makeFolders, removeFolders, type Swap, SwapError, stage, swapIn, unstage, versionOf } from '../files/file-swap.js'
import type { Change } from '../plan/plan.js'
import { forgetExcept, type LeftoverFile, remainingLeftovers } from './leftovers.js'
import { bytesName, type Intent, markSet, openSet, removeSet, type StoredSet, writeDurably, writeIntent } from './undo-journal.js'

/** Changes that are made together: all of them, or none. */
export interface ChangeSet {
  kind: Intent['kind']
  nonce: string
  undoes?: string | undefined
  key: PassKey
  at: number
  changes: readonly Change[]
  event: AppliedBody
}

export type ChangeSetResult =
  | { ok: true; set: StoredSet }
  /** Every file has its earlier content, except those in `left`, which another process changed in the meantime. */
  | { ok: false; path: string; kind: 'changed' | 'failed'; why: string; left: LeftoverFile[] }

/**
 * Changes a set of files atomically (docs/architecture/protocol.md#release-and-apply). The intent with the old bytes is on disk before the first
 * change. A failure rolls everything back. After a kill, `recoverChangeSet` completes or rolls back the set in the next process. The caller holds the
 * lock.
 */
export async function runChangeSet(context: { deps: Pick<Deps, 'faults'>; directory: string }, todo: ChangeSet): Promise<ChangeSetResult> {
  const { deps, directory } = context
  const { key } = todo
  await deps.faults?.at('apply:before-intent', key)
  const begun = await begin(directory, todo)
  if ('ok' in begun) return begun
  const { intent } = begun
  await deps.faults?.at('apply:after-intent', key)
  const set: StoredSet = { id: key.id, nonce: todo.nonce, intent, foreign: false, applied: false, told: false, left: false }
  let swapped = 0
  try {
    await makeFolders(directory, intent.made)
    const swaps = todo.changes.map((change, index) => forward(directory, intent, { change, index }))
    for (const swap of swaps) await stage(swap)
    for (const swap of swaps) {
      await deps.faults?.at('apply:before-file', key)
      await swapIn(swap)
      swapped += 1
    }
    await deps.faults?.at('apply:after-files', key)
    return { ok: true, set: await markApplied(directory, set) }
  } catch (error) {
    const { left } = await rollBack(directory, set, { intent, swapped }).catch((failed: unknown) => throwUnfinished(directory, set, failed))
    if (!(error instanceof SwapError)) throw error
    return { ok: false, path: fileOf(intent, error.path), kind: error.kind, why: error.message, left }
  }
}

/** Result of recovering an interrupted set. `whole` is undefined if it was rolled back or had changed nothing. */
export interface RecoveredChangeSet {
  whole: StoredSet | undefined
  /** Paths whose earlier content was restored. */
  restored: string[]
  left: LeftoverFile[]
}

/** Recovers a set that a killed process left: it counts as applied if every file is in place, and is rolled back otherwise. */
export async function recoverChangeSet(directory: string, set: StoredSet): Promise<RecoveredChangeSet> {
  const { intent } = set
  if (!intent) {
    await removeSet(directory, set)
    return { whole: undefined, restored: [], left: [] }
  }
  if (set.applied) return { whole: set, restored: [], left: [] }
  if (set.left) return { whole: undefined, restored: [], left: await remainingLeftovers(directory, set) }
  const states = await Promise.all(intent.files.map((file) => versionOf(directory, file)))
  if (states.length > 0 && states.every((state) => state === 'after')) {
    await unstageAll(directory, intent)
    return { whole: await markApplied(directory, set), restored: [], left: [] }
  }
  // The progress of the killed process is unknown.
  return { whole: undefined, ...(await rollBack(directory, set, { intent, swapped: intent.files.length })) }
}

/** Returns the files of a set that have their new content now. */
export async function writtenFiles(directory: string, { intent }: StoredSet): Promise<{ written: string[]; total: number }> {
  const files = intent?.files ?? []
  const states = await Promise.all(files.map((file) => versionOf(directory, file)))
  return { written: files.flatMap(({ path }, index) => (states[index] === 'after' ? [path] : [])), total: files.length }
}

/** Throws an error that names the files written by a set that could be neither completed nor rolled back. */
export async function throwUnfinished(directory: string, set: StoredSet, error: unknown): Promise<never> {
  const { written, total } = await writtenFiles(directory, set)
  const why = error instanceof Error ? error.message : String(error)
  const what = set.intent?.kind === 'undo' ? 'an undo' : 'an application'
  throw new PassOverError(
    'E014',
    `${what} of ${set.id} stopped with ${written.length} of ${total} files written, and cannot be rolled back now (${why}); the next apply or undo in ${directory} tries again`,
    { id: set.id, written },
  )
}

/** Returns the content of a file from before a set. */
export async function bytesBefore(directory: string, set: StoredSet, index: number): Promise<Buffer> {
  await using folder = await openSet(directory, set)
  const bytes = await readRegularFile(folder.at(bytesName(index)), { max: MAX_FILE_BYTES })
  if (sha256(bytes) !== set.intent?.files[index]?.before?.hash) throw new Error(`the stored data of ${set.id} is damaged`)
  return bytes
}

/** Returns the file of the set for a path. For a folder, that is the first file that needs it. */
function fileOf({ files }: Intent, path: string): string {
  return files.find((file) => file.path === path || file.path.startsWith(`${path}/`))?.path ?? path
}

/** Writes the intent. A failure here (disk full, no permission) has changed no file and leaves nothing behind. */
async function begin(directory: string, todo: ChangeSet): Promise<{ intent: Intent } | Extract<ChangeSetResult, { ok: false }>> {
  try {
    return { intent: await writeDown(directory, todo) }
  } catch (error) {
    await removeSet(directory, { id: todo.key.id, nonce: todo.nonce }).catch(() => undefined)
    const code = error instanceof PassOverError ? '' : codeOf(error)
    if (!/^E[A-Z]+$/.test(code)) throw error
    return {
      ok: false,
      path: todo.changes[0]?.path ?? '',
      kind: 'failed',
      why: `the current content could not be saved before writing (${code})`,
      left: [],
    }
  }
}

async function writeDown(directory: string, todo: ChangeSet): Promise<Intent> {
  const { kind, nonce, undoes, key, at, changes, event } = todo
  await using folder = await openSet(directory, { id: key.id, nonce }, 'make')
  const files: Intent['files'] = []
  for (const [index, { path, before, after }] of changes.entries()) {
    if (before) await writeDurably(folder, bytesName(index), before.bytes)
    files.push({
      path,
      ...(before && { before: { hash: sha256(before.bytes), mode: before.mode ?? 0o644, owner: await ownerOf(directory, path) } }),
      ...(after && { after: { hash: sha256(after.bytes), ...(after.mode !== undefined && { mode: after.mode }) } }),
    })
  }
  const made = await missingFolders(directory, changes)
  const intent: Intent = { v: 1, kind, nonce, ...(undoes !== undefined && { undoes }), key, at, made, files, event }
  await writeIntent(directory, folder, intent)
  return intent
}

/** Returns the missing folders that the set needs, parents first. */
async function missingFolders(directory: string, changes: readonly Change[]): Promise<string[]> {
  const missing = new Set<string>()
  for (const { path, after } of changes) {
    const names = path.split('/').slice(0, -1)
    for (let length = after ? 1 : names.length + 1; length <= names.length; length += 1) {
      const reached = await DirectoryHandle.reach(directory, names.slice(0, length))
      if (reached.kind === 'absent') missing.add(names.slice(0, length).join('/'))
      if (reached.kind === 'folder') await reached.folder[Symbol.asyncDispose]()
    }
  }
  return [...missing]
}

async function markApplied(directory: string, set: StoredSet): Promise<StoredSet> {
  await using folder = await openSet(directory, set)
  await markSet(folder, 'applied')
  return { ...set, applied: true }
}

/**
 * Restores the files that still have the content that the set wrote. For files that are left alone, keeps the old content of the first `swapped`
 * ones, because this set may have replaced it.
 */
async function rollBack(
  directory: string,
  set: StoredSet,
  { intent, swapped }: { intent: Intent; swapped: number },
): Promise<Pick<RecoveredChangeSet, 'restored' | 'left'>> {
  const left: number[] = []
  const restored: string[] = []
  await unstageAll(directory, intent)
  for (const [index, file] of intent.files.entries()) {
    const state = await versionOf(directory, file)
    if (state === 'before') continue
    const back = state === 'after' && (await putBack(directory, set, { intent, index }))
    if (back) restored.push(file.path)
    else left.push(index)
  }
  await unstageAll(directory, intent)
  await removeFolders(directory, intent.made)
  const lost = left.filter((index) => index < swapped)
  const kept = await forgetExcept(directory, set, lost)
  return {
    restored,
    left: left.map((index) => ({ path: intent.files[index]?.path ?? '', ...(kept.has(index) && { kept: kept.get(index) }) })),
  }
}

/** Restores one file. Returns false if another process has just changed it. Throws SwapError if it cannot be written: the set is recovered later. */
async function putBack(directory: string, set: StoredSet, { intent, index }: { intent: Intent; index: number }): Promise<boolean> {
  const file = intent.files[index]
  if (!file) return true
  const { path, before, after } = file
  const to = before && { bytes: await bytesBefore(directory, set, index), mode: before.mode, owner: before.owner }
  const swap: Swap = { directory, path, temp: tempName(intent, index), from: after, to }
  try {
    await stage(swap)
    await swapIn(swap)
    return true
  } catch (error) {
    if (error instanceof SwapError && error.kind === 'changed') return false
    throw error
  }
}

function forward(directory: string, intent: Intent, { change, index }: { change: Change; index: number }): Swap {
  const file = intent.files[index]
  const to = change.after && { bytes: change.after.bytes, mode: change.after.mode, owner: change.after.owner ?? file?.before?.owner }
  return { directory, path: change.path, temp: tempName(intent, index), from: file?.before, to }
}

async function unstageAll(directory: string, intent: Intent): Promise<void> {
  for (const [index, { path }] of intent.files.entries()) await unstage({ directory, path, temp: tempName(intent, index) })
}

function tempName({ nonce }: Intent, index: number): string {
  return `.passover-${nonce}-${index}`
}
