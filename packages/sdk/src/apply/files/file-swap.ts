import { constants } from 'node:fs'
import { link, lstat, open, rename, rm, rmdir, unlink } from 'node:fs/promises'
import { sha256 } from '@passover/schemas'
import { codeOf, DirectoryHandle, ignoreMissing } from './directory-handle.js'
import { readStateIn } from './file-state.js'

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_WRONLY } = constants
/** Mode of a new file, before the umask of the process. */
const NEW_FILE_MODE = 0o666

/** The two versions of a file in a change set. Without `before` it did not exist; without `after` it is deleted. */
export interface FileRecord {
  path: string
  before?: { hash: string; mode: number; owner?: { uid: number; gid: number } | undefined } | undefined
  after?: { hash: string; mode?: number | undefined } | undefined
}

/** Change of one file from one state to another. */
export interface Swap {
  directory: string
  path: string
  /** Name of the temporary file in the same folder. It is the same in every process that completes the set. */
  temp: string
  from: FileRecord['before'] | FileRecord['after']
  to: { bytes: Buffer; mode: number | undefined; owner?: { uid: number; gid: number } | undefined } | undefined
}

/**
 * Returns which of the two versions of a set a file has, or `undefined` for neither. Used to complete or roll back a set whose process was killed.
 */
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

/** Error for a file that was not swapped: it changed meanwhile, or could not be written. */
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

/** Writes the new file beside the old one and syncs it to disk. Errors due to space or permissions occur here. */
export function stage(swap: Swap): Promise<void> {
  return inFolder(swap, async (folder) => {
    const { to, temp } = swap
    if (!to) return
    await rm(folder.at(temp), { force: true })
    await using file = await open(folder.at(temp), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, to.mode ?? NEW_FILE_MODE)
    await file.writeFile(to.bytes)
    // When root writes, files keep their owner. A group that the user may not assign is lost. Done before chmod, because chown may clear mode bits.
    if (to.owner) await file.chown(to.owner.uid, to.owner.gid).catch(() => undefined)
    if (to.mode !== undefined) await file.chmod(to.mode & 0o777)
    await file.sync()
  })
}

/** Moves the staged file into place, if the current one has not changed. */
export function swapIn(swap: Swap): Promise<void> {
  return inFolder(swap, async (folder, name) => {
    const { from, to, temp } = swap
    if ((await hashIn(folder, name)) !== from?.hash)
      throw new SwapError(swap.path, 'changed', 'it was changed by another process during the application')
    if (!(await folder.unmoved()))
      throw new SwapError(swap.path, 'changed', 'its folder was moved by another process during the application')
    if (!to) await unlink(folder.at(name))
    else if (from) await rename(folder.at(temp), folder.at(name))
    else await linkNew(folder, temp, name)
    await folder.sync()
  })
}

/** Creates a new file. Unlike a rename, a link never replaces a file that appeared meanwhile. */
async function linkNew(folder: DirectoryHandle, temp: string, name: string): Promise<void> {
  try {
    await link(folder.at(temp), folder.at(name))
  } catch (error) {
    if (codeOf(error) === 'EEXIST') throw error
    // The file system has no hard links: check again, then rename.
    if (await lstat(folder.at(name)).catch(ignoreMissing)) throw error
    await rename(folder.at(temp), folder.at(name))
    return
  }
  await unlink(folder.at(temp))
}

/** Removes a staged file that was not used. */
export async function unstage(swap: Pick<Swap, 'directory' | 'path' | 'temp'>): Promise<void> {
  const reached = await DirectoryHandle.reach(swap.directory, swap.path.split('/').slice(0, -1))
  if (reached.kind !== 'folder') return
  await using folder = reached.folder
  await rm(folder.at(swap.temp), { force: true })
}

/** Creates missing folders, parents first. */
export async function makeFolders(directory: string, made: readonly string[]): Promise<void> {
  for (const path of made) {
    const reached = await DirectoryHandle.reach(directory, path.split('/'), () => undefined).catch((error: unknown) => {
      throw new SwapError(path, 'failed', `its folder ${path} could not be created (${codeOf(error)})`)
    })
    if (reached.kind !== 'folder')
      throw new SwapError(path, 'failed', reached.kind === 'refused' ? reached.why : `its folder ${path} could not be created`)
    await reached.folder[Symbol.asyncDispose]()
  }
}

/** Removes the created folders that are empty. */
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
      throw new SwapError(swap.path, 'changed', reached.kind === 'refused' ? reached.why : 'its folder no longer exists')
    await using folder = reached.folder
    await work(folder, name)
  } catch (error) {
    if (error instanceof SwapError) throw error
    throw new SwapError(swap.path, 'failed', `it could not be written (${codeOf(error)})`)
  }
}
