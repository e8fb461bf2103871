import { constants } from 'node:fs'
import { access, lstat, open } from 'node:fs/promises'
import { foldCase } from '@passover/core'
import { codeOf, DirectoryHandle, ignoreMissing } from './directory-handle.js'

/** A file as it is found. */
export type FileState =
  | { kind: 'absent' }
  /** `mode` is undefined of a file that is still to be made. */
  | { kind: 'file'; bytes: Buffer; mode: number | undefined }
  /** Something that must not be written, or cannot. */
  | { kind: 'refused'; why: string }

/** No content that travels is larger (LIMITS.content), so that a larger file is no content's equal. */
const MAX_BYTES = 256 * 1024 * 1024
const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY, W_OK } = constants

/** The state of files below a directory, by their paths (which `checkPath` passed). */
export async function readFileStates(directory: string, paths: readonly string[]): Promise<Map<string, FileState>> {
  const view = new Map<string, FileState>()
  for (const path of paths) view.set(path, await readState(directory, path))
  return view
}

async function readState(directory: string, path: string): Promise<FileState> {
  try {
    const names = path.split('/')
    const twin = await twinOf(directory, names)
    if (twin !== undefined) return { kind: 'refused', why: `${twin} is there, which differs only in how it is written` }
    const name = names.pop() ?? ''
    const reached = await DirectoryHandle.reach(directory, names)
    if (reached.kind !== 'folder') return reached
    await using folder = reached.folder
    return await readStateIn(folder, name)
  } catch (error) {
    return { kind: 'refused', why: `it cannot be read (${codeOf(error)})` }
  }
}

/** The file of that name in a folder. What may not be written is told before anything is tried, to whoever runs this: root may all. */
export async function readStateIn(folder: DirectoryHandle, name: string): Promise<FileState> {
  const found = await lstat(folder.at(name)).catch(ignoreMissing)
  if (!found) return { kind: 'absent' }
  if (found.isSymbolicLink()) return { kind: 'refused', why: 'it is a symbolic link' }
  if (!found.isFile()) return { kind: 'refused', why: found.isDirectory() ? 'it is a directory' : 'it is not a file' }
  if (found.size > MAX_BYTES) return { kind: 'refused', why: 'it is too large' }
  if ((found.mode & 0o222) === 0) return { kind: 'refused', why: 'it is read-only' }
  const writable = await access(folder.at(name), W_OK).then(
    () => true,
    () => false,
  )
  if (!writable) return { kind: 'refused', why: 'it may not be written' }
  await using file = await open(folder.at(name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  const opened = await file.stat()
  if (!opened.isFile()) return { kind: 'refused', why: 'it is not a file' }
  return { kind: 'file', bytes: await file.readFile(), mode: opened.mode & 0o7777 }
}

/** What stands in the way of a path on a file system that does not tell case apart, or would if the project came to one. */
async function twinOf(directory: string, names: readonly string[]): Promise<string | undefined> {
  for (const [index, name] of names.entries()) {
    const reached = await DirectoryHandle.reach(directory, names.slice(0, index))
    if (reached.kind !== 'folder') return undefined
    await using folder = reached.folder
    const there = await folder.names()
    if (there.includes(name)) continue
    const twin = there.find((other) => foldCase(other) === foldCase(name))
    return twin === undefined ? undefined : [...names.slice(0, index), twin].join('/')
  }
  return undefined
}

/** Whose a file is. */
export async function ownerOf(directory: string, path: string): Promise<{ uid: number; gid: number } | undefined> {
  const names = path.split('/')
  const name = names.pop() ?? ''
  const reached = await DirectoryHandle.reach(directory, names)
  if (reached.kind !== 'folder') return undefined
  await using folder = reached.folder
  const found = await lstat(folder.at(name)).catch(ignoreMissing)
  return found && { uid: found.uid, gid: found.gid }
}
