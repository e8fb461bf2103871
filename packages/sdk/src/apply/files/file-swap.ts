import { constants } from 'node:fs'
import { link, lstat, open, rename, rm, rmdir, unlink } from 'node:fs/promises'
import { sha256 } from '@passover/schemas'
import { codeOf, DirectoryHandle, ignoreMissing } from './directory-handle.js'
import { readStateIn } from './file-state.js'

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_WRONLY } = constants
/** What the process's mask leaves of it. */
const NEW_FILE_MODE = 0o666

/** One file's two versions, as its change set records them. Absent `before`: it was not there; absent `after`: it is deleted. */
export interface FileRecord {
  path: string
  before?: { hash: string; mode: number; owner?: { uid: number; gid: number } | undefined } | undefined
  after?: { hash: string; mode?: number | undefined } | undefined
}

/** One file's way from a state to another. */
export interface Swap {
  directory: string
  path: string
  /** Beside it, while the new one is written; the same in every process that finishes the set. */
  temp: string
  from: FileRecord['before'] | FileRecord['after']
  to: { bytes: Buffer; mode: number | undefined; owner?: { uid: number; gid: number } | undefined } | undefined
}

/** Which of a set's two states a file is in; undefined: neither. A set that was killed is finished or rolled back by this. */
export async function versionOf(directory: string, { path, before, after }: FileRecord): Promise<'before' | 'after' | undefined> {
  const names = path.split('/')
  const name = names.pop() ?? ''
  const reached = await DirectoryHandle.reach(directory, names)
  if (reached.kind === 'refused') return undefined
  if (reached.kind === 'absent') return before ? (after ? undefined : 'after') : 'before'
  await using folder = reached.folder
  const hash = await hashIn(folder, name)
  if (hash === 'unreadable') return undefined
  if (hash === after?.hash) return 'after'
  return hash === before?.hash ? 'before' : undefined
}

async function hashIn(folder: DirectoryHandle, name: string): Promise<string | undefined> {
  const state = await readStateIn(folder, name)
  if (state.kind === 'file') return sha256(state.bytes)
  return state.kind === 'absent' ? undefined : 'unreadable'
}

/** Why a file was not swapped: it is no longer what it was, or could not be written. */
export class SwapError extends Error {
  constructor(
    readonly path: string,
    readonly kind: 'changed' | 'failed',
    why: string,
  ) {
    super(why)
    this.name = 'NotSwapped'
  }
}

/** Puts the new file beside the old one, whole and on disk. What can go wrong for want of room or rights goes wrong here. */
export function stage(swap: Swap): Promise<void> {
  return inFolder(swap, async (folder) => {
    const { to, temp } = swap
    if (!to) return
    await rm(folder.at(temp), { force: true })
    await using file = await open(folder.at(temp), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, to.mode ?? NEW_FILE_MODE)
    await file.writeFile(to.bytes)
    // Others' files stay theirs where root writes; a group that one may not give is lost. Before the mode, which this would narrow.
    if (to.owner) await file.chown(to.owner.uid, to.owner.gid).catch(() => undefined)
    if (to.mode !== undefined) await file.chmod(to.mode & 0o777)
    await file.sync()
  })
}

/** Puts the staged file in place, if the one there is still what it was. */
export function swapIn(swap: Swap): Promise<void> {
  return inFolder(swap, async (folder, name) => {
    const { from, to, temp } = swap
    if ((await hashIn(folder, name)) !== from?.hash) throw new SwapError(swap.path, 'changed', 'it was changed while this was applied')
    if (!(await folder.unmoved())) throw new SwapError(swap.path, 'changed', 'its folder was moved while this was applied')
    if (!to) await unlink(folder.at(name))
    else if (from) await rename(folder.at(temp), folder.at(name))
    else await linkNew(folder, temp, name)
    await folder.sync()
  })
}

/** In place of nothing: unlike a rename, a link never replaces what came there meanwhile. */
async function linkNew(folder: DirectoryHandle, temp: string, name: string): Promise<void> {
  try {
    await link(folder.at(temp), folder.at(name))
  } catch (error) {
    if (codeOf(error) === 'EEXIST') throw error
    // No hard links here: looked once more, then renamed.
    if (await lstat(folder.at(name)).catch(ignoreMissing)) throw error
    await rename(folder.at(temp), folder.at(name))
    return
  }
  await unlink(folder.at(temp))
}

/** Removes what was staged and not used. */
export async function unstage(swap: Pick<Swap, 'directory' | 'path' | 'temp'>): Promise<void> {
  const reached = await DirectoryHandle.reach(swap.directory, swap.path.split('/').slice(0, -1))
  if (reached.kind !== 'folder') return
  await using folder = reached.folder
  await rm(folder.at(swap.temp), { force: true })
}

/** Makes folders that are not there, the upper first. */
export async function makeFolders(directory: string, made: readonly string[]): Promise<void> {
  for (const path of made) {
    const reached = await DirectoryHandle.reach(directory, path.split('/'), () => undefined).catch((error: unknown) => {
      throw new SwapError(path, 'failed', `its folder ${path} could not be made (${codeOf(error)})`)
    })
    if (reached.kind !== 'folder')
      throw new SwapError(path, 'failed', reached.kind === 'refused' ? reached.why : `its folder ${path} could not be made`)
    await reached.folder[Symbol.asyncDispose]()
  }
}

/** Removes folders that were made, where nothing is in them. */
export async function removeFolders(directory: string, made: readonly string[]): Promise<void> {
  for (const path of [...made].reverse()) {
    const names = path.split('/')
    const name = names.pop() ?? ''
    const reached = await DirectoryHandle.reach(directory, names)
    if (reached.kind !== 'folder') continue
    await using folder = reached.folder
    await rmdir(folder.at(name)).catch(() => undefined)
  }
}

async function inFolder(swap: Swap, work: (folder: DirectoryHandle, name: string) => Promise<void>): Promise<void> {
  const names = swap.path.split('/')
  const name = names.pop() ?? ''
  try {
    const reached = await DirectoryHandle.reach(swap.directory, names)
    if (reached.kind !== 'folder')
      throw new SwapError(swap.path, 'changed', reached.kind === 'refused' ? reached.why : 'its folder is gone')
    await using folder = reached.folder
    await work(folder, name)
  } catch (error) {
    if (error instanceof SwapError) throw error
    throw new SwapError(swap.path, 'failed', `it could not be written (${codeOf(error)})`)
  }
}
