import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import {
  accessSync,
  constants,
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { stateFolder } from '@passover/bus/settings'

const KEY_BYTES = 32
const KEY_FILE = 'apply.key'

/** The user's key can be neither read nor created: nothing can be sealed, and nothing that needs a seal is trusted. */
export class NoSealingKey extends Error {
  constructor(
    readonly path: string,
    why: string,
  ) {
    super(`the key ${path} ${why}`)
    this.name = 'NoSealingKey'
  }
}

/**
 * Seals a text for a directory with a key that this user keeps outside of any project. A file that came with a cloned repository, an archive or
 * another user has no valid seal. Neither has one that was copied from another directory.
 *
 * @throws NoSealingKey
 */
export function sealOf(directory: string, text: string): string {
  return seal(ownKey('create'), directory, text)
}

/** Checks a seal. Never creates a key: a user without one has sealed nothing. */
export function isSealed(directory: string, text: string, given: string): boolean {
  let key: Buffer
  try {
    key = ownKey('read')
  } catch (error) {
    if (error instanceof NoSealingKey) return false
    throw error
  }
  const expected = Buffer.from(seal(key, directory, text))
  const actual = Buffer.from(given)
  return actual.length === expected.length && timingSafeEqual(actual, expected)
}

/**
 * Returns the reason why a folder cannot be checked: this user has no key and cannot create one, so the project may still be theirs. Returns
 * `undefined` if there is a key, or if one could be created, which means that this user has sealed nothing yet.
 */
export function missingKeyFault(folder: string): { why: string; hint: string } | undefined {
  const state = stateFolder()
  try {
    ownKey('read')
    return undefined
  } catch (error) {
    if (!(error instanceof NoSealingKey)) throw error
    if (canWrite(state)) return undefined
    return {
      why: `cannot check whether you created ${folder}: ${error.message}, and ${state} cannot be written`,
      hint: 'use the HOME or XDG_STATE_HOME under which you created it; otherwise set XDG_STATE_HOME and XDG_CACHE_HOME to folders that you can write, and run: passover up --adopt',
    }
  }
}

/** Returns true if a folder can be written, or created below its nearest existing parent. */
function canWrite(folder: string): boolean {
  let at = folder
  while (!existsSync(at) && dirname(at) !== at) at = dirname(at)
  try {
    accessSync(at, constants.W_OK)
    return statSync(at).isDirectory()
  } catch {
    return false
  }
}

function seal(key: Buffer, directory: string, text: string): string {
  return createHmac('sha256', key)
    .update(`${realpathSync(directory)}\n${text}`)
    .digest('hex')
}

/** Keys by the path of their file. */
const keys = new Map<string, Buffer>()

function ownKey(missing: 'create' | 'read'): Buffer {
  const folder = stateFolder()
  const path = join(folder, KEY_FILE)
  const known = keys.get(path)
  if (known) return known
  const key = readKey(path, () => (missing === 'create' ? createKey(folder, path) : undefined))
  if (key.length !== KEY_BYTES) throw new NoSealingKey(path, 'does not contain a key: delete it, and a new key is created')
  keys.set(path, key)
  return key
}

function readKey(path: string, create: () => Buffer | undefined): Buffer {
  try {
    return readFileSync(path)
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw unusable(path, error)
  }
  try {
    const made = create()
    if (made) return made
  } catch (error) {
    throw unusable(path, error)
  }
  throw new NoSealingKey(path, 'does not exist')
}

/** Creates the key. If two processes do so concurrently, one wins, and both use its key. */
function createKey(folder: string, path: string): Buffer {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const made = `${path}.${randomBytes(8).toString('hex')}`
  writeFileSync(made, randomBytes(KEY_BYTES), { mode: 0o600, flag: 'wx', flush: true })
  try {
    linkSync(made, path)
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error
  } finally {
    rmSync(made, { force: true })
  }
  return readFileSync(path)
}

function unusable(path: string, error: unknown): NoSealingKey {
  return new NoSealingKey(path, `can be neither read nor created (${codeOf(error)})`)
}

function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? String(error)
}
