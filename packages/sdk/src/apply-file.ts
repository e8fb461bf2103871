import { randomUUID } from 'node:crypto'
import { lstat, mkdir, open, readFile, realpath, rename, rm, unlink } from 'node:fs/promises'
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from 'node:path'
import type { FileModificationArtifact } from '@passover/schemas'

export type FileApplied = { ok: true } | { ok: false; why: string }

const NEW_FILE_MODE = 0o644

/**
 * Applies one modification below a directory. The file must still equal `old_content` (for `create`: not exist), no path may lead out,
 * by `..`, from the root or over a symbolic link; it is replaced as a whole or not at all.
 */
export async function applyModification(directory: string, modification: FileModificationArtifact): Promise<FileApplied> {
  try {
    const place = await placeOf(directory, modification.path)
    if ('why' in place) return { ok: false, why: place.why }
    return await change(place, modification)
  } catch (error) {
    return { ok: false, why: error instanceof Error ? error.message : String(error) }
  }
}

interface Place {
  path: string
  /** Permission bits; undefined when there is no such file. */
  mode: number | undefined
}

/** Where a path lies, if that is inside. */
async function placeOf(directory: string, path: string): Promise<Place | { why: string }> {
  if (isAbsolute(path) || /^[A-Za-z]:/.test(path)) return { why: 'the path is absolute' }
  if (path.split(/[\\/]/).includes('..')) return { why: 'the path leads out of the directory' }
  const root = await realpath(directory)
  const target = resolve(root, path)
  if (target === root || !isInside(root, target)) return { why: 'the path leads out of the directory' }
  const above = await nearestExisting(dirname(target))
  if (above !== root && !isInside(root, above)) return { why: 'a symbolic link leads out of the directory' }
  const stat = await lstat(target).catch(() => undefined)
  if (stat?.isSymbolicLink()) return { why: 'it is a symbolic link' }
  if (stat && !stat.isFile()) return { why: 'it is not a file' }
  return { path: target, mode: stat && stat.mode & 0o7777 }
}

/** Real path of a folder, or of the nearest one above it that exists. */
async function nearestExisting(folder: string): Promise<string> {
  for (let at = folder; ; at = dirname(at)) {
    const real = await realpath(at).catch(() => undefined)
    if (real !== undefined) return real
    if (dirname(at) === at) return at
  }
}

function isInside(root: string, target: string): boolean {
  const way = relative(root, target)
  return way !== '' && way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way)
}

async function change({ path, mode }: Place, modification: FileModificationArtifact): Promise<FileApplied> {
  const operation = modification.operation ?? 'modify'
  if (operation === 'create') {
    if (mode !== undefined) return { ok: false, why: 'it exists already' }
    await mkdir(dirname(path), { recursive: true })
    await replace(path, bytesOf(modification.new_content, modification), NEW_FILE_MODE)
    return { ok: true }
  }
  if (mode === undefined) return { ok: false, why: 'it does not exist' }
  const now = await readFile(path)
  if (!now.equals(bytesOf(modification.old_content, modification))) return { ok: false, why: 'it was changed since' }
  if (operation === 'delete') await unlink(path)
  else await replace(path, bytesOf(modification.new_content, modification), mode)
  return { ok: true }
}

function bytesOf(content: string, { encoding }: FileModificationArtifact): Buffer {
  return Buffer.from(content, encoding === 'base64' ? 'base64' : 'utf8')
}

/** The whole new file beside the old one, on disk, then in its place. */
async function replace(path: string, content: Buffer, mode: number): Promise<void> {
  const beside = join(dirname(path), `.${basename(path).slice(0, 100)}.${randomUUID()}.tmp`)
  try {
    const file = await open(beside, 'wx', mode)
    try {
      await file.writeFile(content)
      await file.chmod(mode)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(beside, path)
  } catch (error) {
    await rm(beside, { force: true })
    throw error
  }
}
