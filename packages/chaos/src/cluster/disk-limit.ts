import { execFile } from 'node:child_process'
import { mkdir, open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { canLimitFiles } from './namespace-sandbox.js'

const run = promisify(execFile)
/** Size of the small file system, somewhat more than the store of a run of one hour. */
const SIZE_MIB = 768
const CHUNK = Buffer.alloc(1 << 20)

/** Method by which the disk of a server is filled on this machine. */
export type DiskLimitMethod = 'small file system' | 'file size limit' | 'none'

/**
 * Provides the folders of the servers' stores and fills their disks. If file systems may be mounted, the last server's store is on a small one in
 * memory, which can be filled. Otherwise a running server gets a limit on its file size, so that its writes fail.
 */
export class DiskLimits implements AsyncDisposable {
  readonly means: DiskLimitMethod
  readonly #dir: string
  readonly #small: string | undefined

  private constructor(dir: string, small: string | undefined) {
    this.#dir = dir
    this.#small = small
    this.means = small ? 'small file system' : canLimitFiles() ? 'file size limit' : 'none'
  }

  static async open(servers: readonly string[], options: { dir: string; mounts: boolean }): Promise<DiskLimits> {
    const last = servers.at(-1)
    if (!options.mounts || servers.length < 2 || !last) return new DiskLimits(options.dir, undefined)
    const path = join(options.dir, last)
    await mkdir(path, { recursive: true })
    await run('mount', ['-t', 'tmpfs', '-o', `size=${SIZE_MIB}m`, 'none', path])
    return new DiskLimits(options.dir, last)
  }

  dirOf(server: string): string {
    return join(this.#dir, server, 'store')
  }

  /** Returns the server whose disk is filled if the schedule names this one. */
  victim(server: string): string {
    return this.#small ?? server
  }

  /** Fills the disk of a server. Returns a function that frees it. */
  async fill(server: string, pid: number): Promise<() => Promise<void>> {
    if (server === this.#small) return this.#ballast(join(this.#dir, server, 'ballast'))
    await run('prlimit', ['--pid', String(pid), '--fsize=1:'])
    return async () => {
      await run('prlimit', ['--pid', String(pid), '--fsize=unlimited:']).catch(() => undefined)
    }
  }

  async #ballast(path: string): Promise<() => Promise<void>> {
    const file = await open(path, 'w')
    try {
      for (;;) await file.write(CHUNK)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
    } finally {
      await file.close()
    }
    return () => rm(path, { force: true })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#small) await run('umount', ['-l', join(this.#dir, this.#small)]).catch(() => undefined)
  }
}
