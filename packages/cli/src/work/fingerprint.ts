import { lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'

/** What tools keep for themselves is no file of the project. */
const IGNORED = new Set(['.git', 'node_modules', '.passover'])
const MAX_FILES = 20_000
const AT_ONCE = 64

/** What tells whether a file was changed: size, time (ns), inode, mode. */
export type Fingerprint = ReadonlyMap<string, string>

/** Of a directory and all below it, its first 20,000 files; links are not followed. */
export async function fingerprint(directory: string): Promise<Fingerprint> {
  const found = new Map<string, string>()
  const folders = ['']
  for (let folder = folders.shift(); folder !== undefined && found.size < MAX_FILES; folder = folders.shift()) {
    const entries = await readdir(join(directory, folder), { withFileTypes: true }).catch(() => [])
    entries.sort((a, b) => (a.name < b.name ? -1 : 1))
    const files = entries.filter(({ name }) => !IGNORED.has(name)).slice(0, MAX_FILES - found.size)
    for (let at = 0; at < files.length; at += AT_ONCE) {
      const marks = await Promise.all(files.slice(at, at + AT_ONCE).map((entry) => markOf(directory, join(folder, entry.name))))
      for (const mark of marks) if (mark) found.set(...mark)
    }
    for (const entry of files) if (entry.isDirectory()) folders.push(join(folder, entry.name))
  }
  return found
}

/** Paths that were added, removed or changed, in order. Pure. */
export function changesBetween(before: Fingerprint, after: Fingerprint): string[] {
  const changed = [...after].filter(([path, mark]) => before.get(path) !== mark).map(([path]) => path)
  const gone = [...before.keys()].filter((path) => !after.has(path))
  return [...changed, ...gone].sort()
}

/** Of a folder only that it is there: what changes in it is told by itself. */
async function markOf(directory: string, path: string): Promise<[string, string] | undefined> {
  try {
    const { size, mtimeNs, ino, mode } = await lstat(join(directory, path), { bigint: true })
    const isFolder = (mode & 0o170000n) === 0o040000n
    return [path, isFolder ? `folder ${ino}` : `${size} ${mtimeNs} ${ino} ${mode}`]
  } catch {
    return undefined
  }
}
