import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { link, mkdir, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { PassOverError } from '@passover/core'
import { codeOf, ignoreMissing } from './folder.js'

const KEY_BYTES = 32

/** `<XDG state>/passover`: what belongs to a user, not to a project. */
export function stateFolder(env: NodeJS.ProcessEnv = process.env): string {
  return join(env.XDG_STATE_HOME || join(env.HOME || homedir(), '.local', 'state'), 'passover')
}

/**
 * The seal of an intent: by a key of this user outside any project, over the directory and the text. What a cloned repository, an archive
 * or another user brings has none, nor has what was copied from another directory (decision 47).
 */
export async function sealOf(directory: string, text: string): Promise<string> {
  return createHmac('sha256', await ownKey())
    .update(`${await realpath(directory)}\n${text}`)
    .digest('hex')
}

export async function isSealed(directory: string, text: string, seal: string): Promise<boolean> {
  const wanted = Buffer.from(await sealOf(directory, text))
  const found = Buffer.from(seal)
  return found.length === wanted.length && timingSafeEqual(found, wanted)
}

/** By the path of its file. */
const keys = new Map<string, Buffer>()

/** Made at the first use. E030 where none can be kept: nothing is applied then (decision 47). */
async function ownKey(): Promise<Buffer> {
  const folder = stateFolder()
  const path = join(folder, 'apply.key')
  const known = keys.get(path)
  if (known) return known
  const key = await readFile(path)
    .catch(ignoreMissing)
    .then((found) => found ?? makeKey(folder, path))
    .catch((error: unknown) => {
      throw new PassOverError('E030', `the key ${path} can be neither read nor made (${codeOf(error)}): without it nothing is applied`, {
        path,
      })
    })
  if (key.length !== KEY_BYTES) throw new PassOverError('E030', `${path} holds no key: delete it, and another is made`, { path })
  keys.set(path, key)
  return key
}

/** Of two processes that make it one wins, and both use that one. */
async function makeKey(folder: string, path: string): Promise<Buffer> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const made = `${path}.${randomBytes(8).toString('hex')}`
  await writeFile(made, randomBytes(KEY_BYTES), { mode: 0o600, flag: 'wx', flush: true })
  await link(made, path).catch((error: unknown) => {
    if (codeOf(error) !== 'EEXIST') throw error
  })
  await rm(made, { force: true })
  return readFile(path)
}
