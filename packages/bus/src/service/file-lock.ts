import { readlinkSync } from 'node:fs'
import { open, stat, unlink } from 'node:fs/promises'
import { hostname } from 'node:os'
import { isAlive, processStarted } from '@passover/nats-server/process-liveness'

/** The folder in which contenders write down their names. */
export interface LockDirectory {
  names(): Promise<string[]>
  /** How the file of that name is reached. */
  at(name: string): string
}

export interface LockOptions {
  folder: LockDirectory
  /** Names of contenders for the same thing begin so. */
  prefix: string
  /** A holder elsewhere cannot be looked at: after so long, longer than any holds it, it is taken for dead. */
  foreign_ms?: number
}

const FOREIGN_MS = 600_000

/**
 * One at a time. Each contender has a file of its own, whose name is never used again, and holds the lock when it then sees no other living
 * one: so a dead holder's file can be removed by anybody, whatever happens in between, and a lock that was taken over is never removed by
 * who judged the one before it. Gives what releases it, or the process that is in the way. `nonce`: made anew each time. Throws what the system says to a file that cannot be made.
 */
export async function acquireFileLock(contending: LockOptions, nonce: string): Promise<AsyncDisposable | { held_by: number }> {
  const { folder, prefix } = contending
  const before = await livingOthers(contending, undefined)
  if (before !== undefined) return { held_by: before }
  const name = `${prefix}${process.pid}.${began(process.pid)}.${nonce}.${here()}`
  await (await open(folder.at(name), 'wx', 0o600)).close()
  const release = () => unlink(folder.at(name)).catch(ignoreMissing)
  try {
    const other = await livingOthers(contending, name)
    if (other === undefined) return { [Symbol.asyncDispose]: release }
    await release()
    return { held_by: other }
  } catch (error) {
    await release()
    throw error
  }
}

/** The process of another living contender; the files of dead ones are removed. */
async function livingOthers(contending: LockOptions, own: string | undefined): Promise<number | undefined> {
  const { folder, prefix } = contending
  let living: number | undefined
  for (const name of await folder.names()) {
    if (!name.startsWith(prefix) || name === own) continue
    const [pid = ''] = name.slice(prefix.length).split('.')
    if (await lives(contending, name)) living ??= Number(pid)
    else await unlink(folder.at(name)).catch(ignoreMissing)
  }
  return living
}

async function lives({ folder, prefix, foreign_ms = FOREIGN_MS }: LockOptions, name: string): Promise<boolean> {
  const [pid = '', started = '', , where] = name.slice(prefix.length).split('.')
  if (where === here()) return isAlive(Number(pid), decodeURIComponent(started))
  const found = await stat(folder.at(name)).catch(ignoreMissing)
  return found !== undefined && Date.now() - found.mtimeMs < foreign_ms
}

function began(pid: number): string {
  return encodeURIComponent(processStarted(pid) ?? '')
}

/** Where process numbers mean the same: a machine, or a container in it. */
function here(): string {
  let space = ''
  try {
    space = readlinkSync('/proc/self/ns/pid')
  } catch {
    // Elsewhere there is one for the whole machine.
  }
  return Buffer.from(`${hostname()} ${space}`).toString('hex')
}

function ignoreMissing(error: unknown): undefined {
  if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error
  return undefined
}
