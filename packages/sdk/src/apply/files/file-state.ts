import { constants } from 'node:fs'
import { access, lstat, open } from 'node:fs/promises'
import { foldCase } from '@passover/core'
import { codeOf, DirectoryHandle, ignoreMissing } from './directory-handle.js'

/** State of a file. */
export type FileState =
  | { kind: 'absent' }
  /** `mode` is `undefined` for a file that does not exist yet. */
  | { kind: 'file'; bytes: Buffer; mode: number | undefined }
  /** The path must not or cannot be written. */
  | { kind: 'refused'; why: string }

/** Maximum size in bytes. Contents in messages are never larger (LIMITS.content), so a larger file cannot equal one. */
export const MAX_FILE_BYTES = 256 * 1024 * 1024
const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY, W_OK } = constants

/** Reads the state of files below a directory. The paths must have passed `checkPath`. */
export async function readFileStates(directory: string, paths: readonly string[]): Promise<Map<string, FileState>> {
  const view = new Map<string, FileState>()
  for (const path of paths) view.set(path, await readState(directory, path))
  return view
}

async function readState(directory: string, path: string): Promise<FileState> {
  try {
    const names = path.split('/')
    const twin = await twinOf(directory, names)
    if (twin !== undefined) return { kind: 'refused', why: `${twin} exists, whose name differs only in case or Unicode form` }
    const name = names.pop() ?? ''
    const reached = await DirectoryHandle.reach(directory, names)
    if (reached.kind !== 'folder') return reached
    await using folder = reached.folder
    return await readStateIn(folder, name)
  } catch (error) {
    return { kind: 'refused', why: `it cannot be read (${codeOf(error)})` }
  }
}

/** Reads the state of a file in a folder. Detects files that must not be written before any attempt to write them, because root may write all. */
export async function readStateIn(folder: DirectoryHandle, name: string): Promise<FileState> {
  const stats = await lstat(folder.at(name)).catch(ignoreMissing)
  if (!stats) return { kind: 'absent' }
  if (stats.isSymbolicLink()) return { kind: 'refused', why: 'it is a symbolic link' }
  if (!stats.isFile()) return { kind: 'refused', why: stats.isDirectory() ? 'it is a directory' : 'it is not a file' }
  if (stats.size > MAX_FILE_BYTES) return { kind: 'refused', why: 'it is too large' }
  if ((stats.mode & 0o222) === 0) return { kind: 'refused', why: 'it is read-only' }
  const writable = await access(folder.at(name), W_OK).then(
    () => true,
    () => false,
  )
  if (!writable) return { kind: 'refused', why: 'it is not writable' }
  await using file = await open(folder.at(name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  const opened = await file.stat()
  if (!opened.isFile()) return { kind: 'refused', why: 'it is not a file' }
  return { kind: 'file', bytes: await file.readFile(), mode: opened.mode & 0o7777 }
}

/** Returns an existing path that differs only in case: a case-insensitive file system would confuse it with this one. */
async function twinOf(directory: string, names: readonly string[]): Promise<string | undefined> {
  for (const [index, name] of names.entries()) {
    const reached = await DirectoryHandle.reach(directory, names.slice(0, index))
    if (reached.kind !== 'folder') return undefined
    await using folder = reached.folder
    const entries = await folder.names()
    if (entries.includes(name)) continue
    const twin = entries.find((other) => foldCase(other) === foldCase(name))
    return twin === undefined ? undefined : [...names.slice(0, index), twin].join('/')
  }
  return undefined
}

/** Returns the owner of a file. */
export async function ownerOf(directory: string, path: string): Promise<{ uid: number; gid: number } | undefined> {
  const names = path.split('/')
  const name = names.pop() ?? ''
  const reached = await DirectoryHandle.reach(directory, names)
  if (reached.kind !== 'folder') return undefined
  await using folder = reached.folder
  const stats = await lstat(folder.at(name)).catch(ignoreMissing)
  return stats && { uid: stats.uid, gid: stats.gid }
}
