import { lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'

/** Folders that are skipped inside a watched directory. `.passover` is read if it is a watched directory itself. */
const IGNORED = new Set(['node_modules', '.passover'])
/** Files that a running installation writes all the time: its server's data and its log. */
const CHANGING = /\/\.passover\/(?:nats|passover\.log[^/]*)$/
/** Git object folders. Objects are named by content, so adding or removing one changes its folder, and only the folders are read. */
const OBJECTS = /\/\.git\/(?:.+\/)?objects$/
const MAX_FILES = 20_000
const CONCURRENCY = 64

/** State per path (size, time in ns, inode, mode), to detect changed files. */
export type Fingerprint = ReadonlyMap<string, string>

/** Fingerprints the first 20,000 files in and below the directories. Does not follow links. Paths in the first directory are relative. */
export async function fingerprint(directories: readonly string[]): Promise<Fingerprint> {
  const found = new Map<string, string>()
  for (const [at, directory] of directories.entries()) await read(directory, { name: at === 0 ? '' : directory, found })
  return found
}

async function read(directory: string, { name, found }: { name: string; found: Map<string, string> }): Promise<void> {
  const folders = ['']
  for (let folder = folders.shift(); folder !== undefined && found.size < MAX_FILES; folder = folders.shift()) {
    const entries = await readdir(join(directory, folder), { withFileTypes: true }).catch(() => [])
    entries.sort((a, b) => (a.name < b.name ? -1 : 1))
    const isObjects = OBJECTS.test(join(directory, folder))
    const isWatched = ({ name }: { name: string }) => !IGNORED.has(name) && !CHANGING.test(join(directory, folder, name))
    const files = entries.filter(isWatched).slice(0, MAX_FILES - found.size)
    for (let at = 0; at < files.length; at += CONCURRENCY) {
      const marks = await Promise.all(
        files.slice(at, at + CONCURRENCY).map((entry) => markOf(directory, join(folder, entry.name), isObjects)),
      )
      for (const mark of marks) if (mark) found.set(join(name, mark[0]), mark[1])
    }
    for (const entry of files) if (entry.isDirectory() && !isObjects) folders.push(join(folder, entry.name))
  }
}

/** Returns the paths that were added, removed or changed, sorted. Pure. */
export function changesBetween(before: Fingerprint, after: Fingerprint): string[] {
  const changed = [...after].filter(([path, mark]) => before.get(path) !== mark).map(([path]) => path)
  const gone = [...before.keys()].filter((path) => !after.has(path))
  return [...changed, ...gone].sort()
}

/** Returns the mark of a file. The time of a folder counts only if its entries are not read. */
async function markOf(directory: string, path: string, withTime: boolean): Promise<[string, string] | undefined> {
  try {
    const { size, mtimeNs, ino, mode } = await lstat(join(directory, path), { bigint: true })
    const isFolder = (mode & 0o170000n) === 0o040000n
    return [path, isFolder ? `folder ${ino}${withTime ? ` ${mtimeNs}` : ''}` : `${size} ${mtimeNs} ${ino} ${mode}`]
  } catch {
    return undefined
  }
}
