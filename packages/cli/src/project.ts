import { accessSync, constants, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { CliFailure } from './failure.js'

export const PROJECT_FOLDER = '.passover'

/** `.passover/server.json`: where the project's own server is and how to get in. Mode 0600. */
export interface ServerFile {
  url: string
  user: string
  password: string
  /** Process of `passover up`; absent after it ended in good order. */
  pid?: number
  /** ms */
  started_at?: number
  /** Where `up` tells how it is; absent while it is just starting. */
  health?: string
  /** Where `up --http` serves the HTTP API. */
  http?: string
}

/** The nearest `.passover` folder from `from` upward. */
export function findProject(from: string): string | undefined {
  let folder = resolve(from)
  for (;;) {
    const candidate = join(folder, PROJECT_FOLDER)
    if (existsSync(join(candidate, 'server.json'))) return candidate
    const above = dirname(folder)
    if (above === folder) return undefined
    folder = above
  }
}

/** Whether a process that holds the project has not written yet all that it serves: what one before it left says nothing of this one. */
export function isStarting(file: ServerFile | undefined, pid: number): boolean {
  return file?.pid !== pid || file.health === undefined
}

/** Makes a project's folder, invisible to git and to other users. CliFailure E030 where it may not be written. */
export function makeProject(directory: string): string {
  const folder = join(resolve(directory), PROJECT_FOLDER)
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    const ignore = join(folder, '.gitignore')
    if (!existsSync(ignore)) writeFileSync(ignore, '*\n')
    accessSync(folder, constants.W_OK | constants.X_OK)
  } catch (error) {
    if (!isNodeError(error)) throw error
    const hint = 'run it as the user that the folder belongs to, or in a folder of your own: --directory <path>'
    throw new CliFailure('E030', `${folder} cannot be used: ${error.message}`, { hint })
  }
  return folder
}

/** Reads `server.json`. CliFailure E030 when it cannot be read or is not what `up` writes. */
export function readServerFile(folder: string): ServerFile | undefined {
  const path = join(folder, 'server.json')
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    if (isNodeError(error) && error.code === 'ENOENT') return undefined
    throw new CliFailure('E030', `${path} cannot be read: ${error instanceof Error ? error.message : String(error)}`, {
      hint: 'it belongs to the user who ran `passover up`; run the command as that user, or name a server with --server',
    })
  }
  const file = parseServerFile(text)
  if (!file) throw new CliFailure('E030', `${path} is not a server file`, { hint: `remove it and run \`passover up\` again` })
  return file
}

function parseServerFile(text: string): ServerFile | undefined {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value !== 'object' || value === null) return undefined
    const { url, user, password, pid, started_at, health, http } = value as Record<string, unknown>
    if (typeof url !== 'string' || typeof user !== 'string' || typeof password !== 'string') return undefined
    return {
      url,
      user,
      password,
      ...(typeof pid === 'number' ? { pid } : {}),
      ...(typeof started_at === 'number' ? { started_at } : {}),
      ...(typeof health === 'string' ? { health } : {}),
      ...(typeof http === 'string' ? { http } : {}),
    }
  } catch {
    return undefined
  }
}

/** Writes `server.json` as a whole or not at all. */
export function writeServerFile(folder: string, file: ServerFile): void {
  const path = join(folder, 'server.json')
  const draft = `${path}.${process.pid}`
  writeFileSync(draft, `${JSON.stringify(file, null, 2)}\n`, { mode: 0o600 })
  renameSync(draft, path)
}

export function isNodeError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && 'code' in error
}
