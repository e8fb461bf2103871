import { renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { FileRefused, readRegularFileSync } from '@passover/bus/settings'
import type { TrustIssue } from './ownership.js'
import { isSealed, missingKeyFault, sealOf } from './seal.js'

/** Content of `.passover/server.json`: address and credentials of the project's own server. The file has mode 0600. */
export interface ServerFile {
  url: string
  user: string
  password: string
  /** Process id of `passover up`. Absent after a clean shutdown. */
  pid?: number
  /** Start time in milliseconds since 1970. */
  started_at?: number
  /** URL of the health endpoint of `up`. Absent during the start. */
  health?: string
  /** URL of the HTTP API of `up --http`. */
  http?: string
}

export type ServerFileRead = { kind: 'ok'; file: ServerFile } | { kind: 'absent' } | { kind: 'refused'; fault: TrustIssue }

const NAME = 'server.json'
/** Maximum size in bytes. The file may come from a repository. */
const MAX_BYTES = 64 * 1024

export function serverFilePath(folder: string): string {
  return join(folder, NAME)
}

/** Reads a project's server file. A file is trusted only if this user's own `passover up` sealed it for this very folder. */
export function readSealed(folder: string): ServerFileRead {
  const path = serverFilePath(folder)
  let text: string
  try {
    text = readText(path)
  } catch (error) {
    if (error instanceof FileRefused) return refused(error.message, 'remove it and run `passover up` again')
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return { kind: 'absent' }
    return refused(`${path} cannot be read (${code})`, 'run the command as the user who ran `passover up`, or name a server with --server')
  }
  const parsed = parse(text)
  if (!parsed) return refused(`${path} is not a server file`, `remove it and run \`passover up\` again`)
  const { seal, ...file } = parsed
  if (seal !== undefined && isSealed(folder, sealedText(file), seal)) return { kind: 'ok', file }
  const missing = seal === undefined ? undefined : missingKeyFault(folder)
  if (missing) return { kind: 'refused', fault: missing }
  return refused(
    `${path} was not written here by your own \`passover up\``,
    'if it came with a repository, remove .passover/; if the project is yours and was moved or restored: passover up --adopt',
  )
}

/**
 * Writes and seals the server file atomically.
 *
 * @throws NoSealingKey
 */
export function writeServerFile(folder: string, file: ServerFile): void {
  const path = serverFilePath(folder)
  const draft = `${path}.${process.pid}`
  writeFileSync(draft, `${JSON.stringify({ ...file, seal: sealOf(folder, sealedText(file)) }, null, 2)}\n`, { mode: 0o600 })
  renameSync(draft, path)
}

/** Seals the server file if it is a well-formed one. */
export function adoptServerFile(folder: string): void {
  let text: string
  try {
    text = readText(serverFilePath(folder))
  } catch {
    return
  }
  const parsed = parse(text)
  if (parsed) writeServerFile(folder, parsed)
}

function readText(path: string): string {
  return readRegularFileSync(path, { max: MAX_BYTES }).toString()
}

function refused(why: string, hint: string): ServerFileRead {
  return { kind: 'refused', fault: { why, hint } }
}

function sealedText({ url, user, password, pid, started_at, health, http }: ServerFile): string {
  return `server.json\n${JSON.stringify([url, user, password, pid, started_at, health, http])}`
}

function parse(text: string): (ServerFile & { seal?: string }) | undefined {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value !== 'object' || value === null) return undefined
    const { url, user, password, pid, started_at, health, http, seal } = value as Record<string, unknown>
    if (typeof url !== 'string' || typeof user !== 'string' || typeof password !== 'string') return undefined
    return {
      url,
      user,
      password,
      ...(typeof pid === 'number' ? { pid } : {}),
      ...(typeof started_at === 'number' ? { started_at } : {}),
      ...(typeof health === 'string' ? { health } : {}),
      ...(typeof http === 'string' ? { http } : {}),
      ...(typeof seal === 'string' ? { seal } : {}),
    }
  } catch {
    return undefined
  }
}
