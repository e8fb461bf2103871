import { readlinkSync } from 'node:fs'
import { lstat, open, unlink } from 'node:fs/promises'
import { hostname } from 'node:os'
import { isAlive, processStarted } from '@passover/nats-server/process-liveness'

/** The folder that contains the lock files. */
export interface LockDirectory {
  names(): Promise<string[]>
  /** Returns the path of the file with that name. */
  at(name: string): string
}

export interface LockOptions {
  folder: LockDirectory
  /** Prefix of the file names of all contenders for one lock. */
  prefix: string
  /**
   * Milliseconds after which a holder on another machine, whose process cannot be checked, counts as dead. Must exceed the longest time the lock is
   * held. Default 600,000.
   */
  foreign_ms?: number
}

const FOREIGN_MS = 600_000

/**
 * Acquires an exclusive lock. Each contender creates a file with a unique name, and holds the lock if it then finds no other living contender. Since
 * names are never reused, any process may remove a dead holder's file at any time without removing a newer lock. Returns the lock, or the process
 * that holds it. `nonce` must be new for each call. Throws the system's error if the file cannot be created.
 */
export async function acquireFileLock(options: LockOptions, nonce: string): Promise<AsyncDisposable | { held_by: number }> {
  const { folder, prefix } = options
  const before = await livingOthers(options, undefined)
  if (before !== undefined) return { held_by: before }
  const name = `${prefix}${process.pid}.${began(process.pid)}.${nonce}.${here()}`
  await (await open(folder.at(name), 'wx', 0o600)).close()
  const release = () => unlink(folder.at(name)).catch(ignoreMissing)
  try {
    const other = await livingOthers(options, name)
    if (other === undefined) return { [Symbol.asyncDispose]: release }
    await release()
    return { held_by: other }
  } catch (error) {
    await release()
    throw error
  }
}

/** Returns the process of another living contender. Removes the files of dead ones. */
async function livingOthers(options: LockOptions, own: string | undefined): Promise<number | undefined> {
  const { folder, prefix } = options
  let living: number | undefined
  for (const name of await folder.names()) {
    if (!name.startsWith(prefix) || name === own) continue
    const found = await lstat(folder.at(name)).catch(ignoreMissing)
    // Contenders create files. Links and folders may have come with a repository.
    if (!found?.isFile()) continue
    const [pid = ''] = name.slice(prefix.length).split('.')
    if (lives(options, name, found)) living ??= Number(pid)
    else await unlink(folder.at(name)).catch(ignoreMissing)
  }
  return living
}

function lives({ prefix, foreign_ms = FOREIGN_MS }: LockOptions, name: string, { mtimeMs }: { mtimeMs: number }): boolean {
  const [pid = '', started = '', , where] = name.slice(prefix.length).split('.')
  if (where === here()) return isAlive(Number(pid), decodeURIComponent(started))
  return Date.now() - mtimeMs < foreign_ms
}

function began(pid: number): string {
  return encodeURIComponent(processStarted(pid) ?? '')
}

/** Returns an id of the process namespace: a machine, or a container on it. */
function here(): string {
  let space = ''
  try {
    space = readlinkSync('/proc/self/ns/pid')
  } catch {
    // Other systems have one namespace for the whole machine.
  }
  return Buffer.from(`${hostname()} ${space}`).toString('hex')
}

function ignoreMissing(error: unknown): undefined {
  if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error
  return undefined
}
