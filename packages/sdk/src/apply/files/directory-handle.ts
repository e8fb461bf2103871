import { constants, existsSync } from 'node:fs'
import { type FileHandle, lstat, mkdir, open, readdir, readlink, realpath } from 'node:fs/promises'
import { join } from 'node:path'

/** Directory with the kernel's links to the open files of the process. Opening a path below such a link works like `openat`, which Node lacks. */
const OPEN_FILES = '/proc/self/fd'
const HAS_OPEN_FILES = existsSync(OPEN_FILES)
const { O_DIRECTORY, O_NOFOLLOW, O_RDONLY } = constants

export type Reached = { kind: 'folder'; folder: DirectoryHandle } | { kind: 'absent' } | { kind: 'refused'; why: string }

/**
 * An open handle of a folder below a directory. It was opened name by name, without following symbolic links. Operations on paths from `at` affect
 * this very folder, even if its path points elsewhere by now. On systems without links to open files, `unmoved` is the only protection.
 */
export class DirectoryHandle implements AsyncDisposable {
  readonly #handle: FileHandle
  readonly #path: string

  private constructor(handle: FileHandle, path: string) {
    this.#handle = handle
    this.#path = path
  }

  /** Opens the folder with these names. `make` creates missing folders and is called for each. */
  static async reach(directory: string, names: readonly string[], make?: (path: string) => void): Promise<Reached> {
    let at = await DirectoryHandle.#root(directory)
    for (const [index, name] of names.entries()) {
      const next = await at.#below(name, make && (() => make(names.slice(0, index + 1).join('/')))).catch(async (error: unknown) => {
        await at[Symbol.asyncDispose]()
        throw error
      })
      await at[Symbol.asyncDispose]()
      if (next.kind !== 'folder') return next
      at = next.folder
    }
    return { kind: 'folder', folder: at }
  }

  static async #root(directory: string): Promise<DirectoryHandle> {
    const path = await realpath(directory)
    return new DirectoryHandle(await open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW), path)
  }

  /** Returns a path to the file of that name in this folder. */
  at(name: string): string {
    return HAS_OPEN_FILES ? `${OPEN_FILES}/${this.#handle.fd}/${name}` : join(this.#path, name)
  }

  /** Returns true if its path still leads to this folder. */
  async unmoved(): Promise<boolean> {
    const now = await (HAS_OPEN_FILES ? readlink(`${OPEN_FILES}/${this.#handle.fd}`) : realpath(this.#path)).catch(() => undefined)
    return now === this.#path
  }

  names(): Promise<string[]> {
    return readdir(HAS_OPEN_FILES ? `${OPEN_FILES}/${this.#handle.fd}` : this.#path)
  }

  /** Syncs changes of the folder to disk. */
  async sync(): Promise<void> {
    // Some systems cannot sync directories.
    await this.#handle.sync().catch(() => undefined)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#handle.close()
  }

  async #below(name: string, make: (() => void) | undefined): Promise<Reached> {
    const stats = await lstat(this.at(name)).catch(ignoreMissing)
    if (!stats) {
      if (!make) return { kind: 'absent' }
      const created = await mkdir(this.at(name)).then(() => true, ignoreExisting)
      if (created) make()
    }
    if (stats?.isSymbolicLink()) return { kind: 'refused', why: `${name} in its path is a symbolic link` }
    if (stats && !stats.isDirectory()) return { kind: 'refused', why: `${name} in its path is not a directory` }
    try {
      const handle = await open(this.at(name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
      return { kind: 'folder', folder: new DirectoryHandle(handle, join(this.#path, name)) }
    } catch (error) {
      return { kind: 'refused', why: `${name} in its path cannot be opened (${codeOf(error)})` }
    }
  }
}

export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : String(error)
}

export function ignoreMissing(error: unknown): undefined {
  if (codeOf(error) !== 'ENOENT') throw error
  return undefined
}

function ignoreExisting(error: unknown): false {
  if (codeOf(error) !== 'EEXIST') throw error
  return false
}
