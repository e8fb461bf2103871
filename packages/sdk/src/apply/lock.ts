import { readFileSync, readlinkSync } from 'node:fs'
import { open, stat, unlink } from 'node:fs/promises'
import { hostname } from 'node:os'
import { PassOverError } from '@passover/core'
import { type Deps, pause } from '../deps.js'
import { codeOf, type Folder, ignoreMissing } from './folder.js'

const PREFIX = 'lock-'
const WAIT_MS = 30_000
/** A holder elsewhere cannot be looked at: after so long it is taken for dead. */
const FOREIGN_MS = 600_000

/**
 * One at a time in a directory. Each contender has a file of its own, whose name is never used again, and holds the lock when it then sees
 * no other living one: so a dead holder's file can be removed by anybody, whatever happens in between. E014 when another holds it for long, E013 without the right to write.
 */
export async function lockDirectory(deps: Pick<Deps, 'clock' | 'random'>, folder: Folder): Promise<AsyncDisposable> {
  const until = deps.clock.monotonic() + WAIT_MS
  for (let tries = 0; ; tries += 1) {
    const other = (await livingOthers(folder, undefined))[0] ?? (await contend(deps, folder))
    if (typeof other !== 'string') return other
    if (deps.clock.monotonic() > until) throw busy(other)
    const [random = 0] = deps.random.bytes(1)
    await pause(deps.clock, 2 + (random % 2 ** Math.min(4 + tries, 7)))
  }
}

/** Writes down its own name, and gives way to any other that lives. */
async function contend({ random }: Pick<Deps, 'random'>, folder: Folder): Promise<AsyncDisposable | string> {
  const name = ownName(Buffer.from(random.bytes(12)).toString('hex'))
  const path = folder.at(name)
  await (await open(path, 'wx', 0o600).catch(unwritable)).close()
  const release = () => unlink(folder.at(name)).catch(ignoreMissing)
  try {
    const [other] = await livingOthers(folder, name)
    if (other === undefined) return { [Symbol.asyncDispose]: release }
    await release()
    return other
  } catch (error) {
    await release()
    throw error
  }
}

function unwritable(error: unknown): never {
  throw new PassOverError('E013', `nothing can be written into .passover/apply (${codeOf(error)})`)
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

/** When a process began, in the kernel's ticks: numbers are used again. Empty where that cannot be known. */
function beganAt(pid: number): string {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return text.slice(text.lastIndexOf(')') + 2).split(' ')[19] ?? ''
  } catch {
    return ''
  }
}

function ownName(nonce: string): string {
  return `${PREFIX}${process.pid}.${beganAt(process.pid)}.${nonce}.${here()}`
}

/** Those of other living contenders; the files of dead ones are removed. */
async function livingOthers(folder: Folder, own: string | undefined): Promise<string[]> {
  const living: string[] = []
  for (const name of await folder.names()) {
    if (!name.startsWith(PREFIX) || name === own) continue
    if (await lives(folder, name)) living.push(name)
    else await unlink(folder.at(name)).catch(ignoreMissing)
  }
  return living
}

async function lives(folder: Folder, name: string): Promise<boolean> {
  const [pid = '', began = '', , where] = name.slice(PREFIX.length).split('.')
  if (where !== here()) {
    const found = await stat(folder.at(name)).catch(ignoreMissing)
    return found !== undefined && Date.now() - found.mtimeMs < FOREIGN_MS
  }
  return isAlive(Number(pid)) && beganAt(Number(pid)) === began
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}

function busy(other: string): PassOverError {
  const [pid] = other.slice(PREFIX.length).split('.')
  return new PassOverError('E014', `process ${pid} applies changes in this directory; try again when it is done`, { pid: Number(pid) })
}
