import { constants, existsSync } from 'node:fs'
import { type FileHandle, lstat, mkdir, open, readdir, readlink, realpath } from 'node:fs/promises'
import { join } from 'node:path'

/** The kernel's own names of what a process has open: reaching into them is `openat`, which Node lacks. */
const OPEN_FILES = '/proc/self/fd'
const HAS_OPEN_FILES = existsSync(OPEN_FILES)
const { O_DIRECTORY, O_NOFOLLOW, O_RDONLY } = constants

export type Reached = { kind: 'folder'; folder: DirectoryHandle } | { kind: 'absent' } | { kind: 'refused'; why: string }

/**
 * A folder below a directory, held open. It was reached name by name and never over a symbolic link; what is done through `at` is done in
 * this very folder, whatever its path has come to mean since. Where the kernel names no open files, `unmoved` is all there is.
 */
export class DirectoryHandle implements AsyncDisposable {
  private constructor(
    private readonly handle: FileHandle,
    private readonly path: string,
  ) {}

  /** Reaches the folder that these names lead to. `make` makes those that are missing, and gets told which. */
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

  /** How the file of that name in this folder is reached. */
  at(name: string): string {
    return HAS_OPEN_FILES ? `${OPEN_FILES}/${this.handle.fd}/${name}` : join(this.path, name)
  }

  /** Whether its path still leads here. */
  async unmoved(): Promise<boolean> {
    const now = await (HAS_OPEN_FILES ? readlink(`${OPEN_FILES}/${this.handle.fd}`) : realpath(this.path)).catch(() => undefined)
    return now === this.path
  }

  names(): Promise<string[]> {
    return readdir(HAS_OPEN_FILES ? `${OPEN_FILES}/${this.handle.fd}` : this.path)
  }

  /** What was changed in it is on disk. */
  async sync(): Promise<void> {
    // Some systems sync no directories.
    await this.handle.sync().catch(() => undefined)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.handle.close()
  }

  async #below(name: string, make: (() => void) | undefined): Promise<Reached> {
    const found = await lstat(this.at(name)).catch(ignoreMissing)
    if (!found) {
      if (!make) return { kind: 'absent' }
      const made = await mkdir(this.at(name)).then(() => true, ignoreExisting)
      if (made) make()
    }
    if (found?.isSymbolicLink()) return { kind: 'refused', why: `${name} on its way is a symbolic link` }
    if (found && !found.isDirectory()) return { kind: 'refused', why: `${name} on its way is not a directory` }
    try {
      const handle = await open(this.at(name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
      return { kind: 'folder', folder: new DirectoryHandle(handle, join(this.path, name)) }
    } catch (error) {
      return { kind: 'refused', why: `${name} on its way cannot be entered (${codeOf(error)})` }
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
