import { acquireFileLock } from '@passover/bus'
import { PassOverError } from '@passover/core'
import { type Deps, sleep } from '../../runtime/dependencies.js'
import { codeOf, type DirectoryHandle } from '../files/directory-handle.js'

const PREFIX = 'lock-'
const WAIT_MS = 30_000

/** Locks a directory for changes. Throws E014 if another process holds the lock for more than 30 s, and E013 without permission to write. */
export async function lockDirectory(deps: Pick<Deps, 'clock' | 'random'>, folder: DirectoryHandle): Promise<AsyncDisposable> {
  const until = deps.clock.monotonic() + WAIT_MS
  for (let tries = 0; ; tries += 1) {
    const nonce = Buffer.from(deps.random.bytes(12)).toString('hex')
    const lock = await acquireFileLock({ folder, prefix: PREFIX }, nonce).catch(unwritable)
    if (!('held_by' in lock)) return lock
    if (deps.clock.monotonic() > until) throw busy(lock.held_by)
    const [random = 0] = deps.random.bytes(1)
    await sleep(deps.clock, 2 + (random % 2 ** Math.min(4 + tries, 7)))
  }
}

function unwritable(error: unknown): never {
  throw new PassOverError('E013', `cannot write to .passover/apply (${codeOf(error)})`)
}

function busy(pid: number): PassOverError {
  return new PassOverError('E014', `process ${pid} is applying changes in this directory; try again when it has finished`, { pid })
}
