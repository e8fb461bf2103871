import { existsSync, readFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import type { Credentials, TlsFiles } from '@passover/bus'
import { type IgnoredFile, searchProject } from '@passover/sdk/project'
import { CliFailure, usage } from './failure.js'

/** The flags that every command takes. */
export interface GlobalFlags {
  json?: boolean
  jsonl?: boolean
  color: boolean
  input: boolean
  as?: string
  server?: string
  directory?: string
}

export type { Credentials }

export interface ServerSetting {
  url: string
  credentials?: Credentials
  /** Absent: the authorities that the system trusts. */
  tls?: TlsFiles
  /** Where the setting came from. */
  origin: 'flag' | 'environment' | 'project'
  /** The flag, the variable or the file that names the server. */
  from: string
  /** The `.passover` folder whose server this is. */
  project?: string
  /** Project files that would have named a server and are not trusted. */
  ignored?: readonly IgnoredFile[]
}

const NAME = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/

/** What was named before a project is looked for, and by which flag or variable (else --server). */
export type NamedServer = Pick<GlobalFlags, 'server'> & { by?: string }

/**
 * Which server: flag > PASSOVER_SERVER > `.passover/` found upward > NATS_URL. CliFailure E040 when none is named, E030 when the only file
 * that names one is not trusted.
 */
export function resolveServer(flags: NamedServer, env: NodeJS.ProcessEnv, directory: string): ServerSetting {
  if (flags.server) return named({ text: flags.server, by: flags.by ?? '--server', origin: 'flag' }, env, directory)
  if (env.PASSOVER_SERVER) return named({ text: env.PASSOVER_SERVER, by: 'PASSOVER_SERVER', origin: 'environment' }, env, directory)
  const { project, ignored } = searchProject(directory)
  if (project) {
    const { file, folder, path } = project
    return { url: file.url, ...signInOf(file), origin: 'project', from: path, project: folder, ignored }
  }
  if (env.NATS_URL) return { ...named({ text: env.NATS_URL, by: 'NATS_URL', origin: 'environment' }, env, directory), ignored }
  const [first] = ignored
  if (first) throw new CliFailure('E030', `no server: ${first.path} is ignored: ${first.why}`, { hint: first.hint })
  throw new CliFailure('E040', `no server: there is no .passover/ in ${directory} or above it in its repository, and NATS_URL is not set`, {
    hint: 'start one here: passover up',
  })
}

interface Address {
  text: string
  /** The flag or the variable that says it. */
  by: string
  origin: ServerSetting['origin']
}

function named({ text, by, origin }: Address, env: NodeJS.ProcessEnv, directory: string): ServerSetting {
  const { url, credentials } = splitUrl(text, by)
  const known = credentials ?? fromEnvironment(env)
  const ca = env.PASSOVER_CA || env.NATS_CA
  const tls = ca ? { tls: { ca } } : {}
  const more = known ? { credentials: known } : fromProject(url, directory)
  return { url, ...more, ...tls, origin, from: by }
}

/** Where agents are isolated the file has no password: each has credentials of its own. */
function signInOf({ user, password }: { user: string; password: string }): { credentials?: Credentials } {
  return user ? { credentials: { user, pass: password } } : {}
}

const SCHEMES = new Set(['nats:', 'tls:', 'ws:', 'wss:'])

/** Takes user and password (or a token) out of a NATS URL that the flag or variable `by` says. */
export function splitUrl(text: string, by = '--server'): { url: string; credentials?: Credentials } {
  const withScheme = text.includes('://') ? text : `nats://${text}`
  let parsed: URL
  try {
    parsed = new URL(withScheme)
  } catch {
    throw usage(`${by}: "${text}" is not a server address`, 'an address looks like nats://127.0.0.1:4222')
  }
  if (!SCHEMES.has(parsed.protocol))
    throw usage(`${by}: ${parsed.protocol}//${parsed.host} is no NATS address`, `set ${by} to one like nats://127.0.0.1:4222`)
  if (!parsed.hostname) throw usage(`${by}: "${text}" names no host`, 'an address looks like nats://127.0.0.1:4222')
  const user = decodeURIComponent(parsed.username)
  const pass = decodeURIComponent(parsed.password)
  const url = `${parsed.protocol}//${parsed.host}`
  if (user && pass) return { url, credentials: { user, pass } }
  return user ? { url, credentials: { token: user } } : { url }
}

function fromEnvironment(env: NodeJS.ProcessEnv): Credentials | undefined {
  if (env.NATS_CREDS) {
    try {
      readFileSync(env.NATS_CREDS)
      return { creds_file: env.NATS_CREDS }
    } catch (error) {
      throw new CliFailure('E030', `NATS_CREDS: ${error instanceof Error ? error.message : String(error)}`, {
        hint: 'point NATS_CREDS at a readable .creds file',
      })
    }
  }
  if (env.NATS_USER && env.NATS_PASSWORD) return { user: env.NATS_USER, pass: env.NATS_PASSWORD }
  return env.NATS_TOKEN ? { token: env.NATS_TOKEN } : undefined
}

/** `--server` with the project's own address still gets in. */
function fromProject(url: string, directory: string): Pick<ServerSetting, 'credentials' | 'project'> {
  const { project } = searchProject(directory)
  return project?.file.url === url ? { ...signInOf(project.file), project: project.folder } : {}
}

/**
 * Whether a server holds a person to their name: with keys for each principal, or with a user of that name. Else any process that reaches it
 * can claim any name, whatever a message says about its author.
 */
export function checksNames({ credentials, project }: ServerSetting, person: string): boolean {
  if (project !== undefined) return existsSync(join(project, 'auth', 'keys.json'))
  if (credentials === undefined) return false
  return 'user' in credentials ? credentials.user === person : !('token' in credentials)
}

/** Whose name a person acts under: --as > PASSOVER_AS > the system's user. */
export function resolvePerson(flags: Pick<GlobalFlags, 'as'>, env: NodeJS.ProcessEnv): string {
  const given = flags.as ?? env.PASSOVER_AS
  if (given !== undefined) {
    if (!NAME.test(given) || given === 'passover') {
      throw usage(
        `"${given}" cannot be a person's name`,
        'a name has 1 to 64 of A-Z a-z 0-9 _ - and starts with a letter or digit; "passover" is reserved',
      )
    }
    return given
  }
  return personFromUser(systemUser(env))
}

function systemUser(env: NodeJS.ProcessEnv): string {
  try {
    return userInfo().username
  } catch {
    // A container's user id may have no name.
    return env.USER ?? env.LOGNAME ?? 'person'
  }
}

/** A system's user name as a token: what a subject cannot carry becomes `-`. */
export function personFromUser(user: string): string {
  const name = user
    .replace(/[^A-Za-z0-9_-]+/g, '-')
    .replace(/^[^A-Za-z0-9]+/, '')
    .slice(0, 64)
  return name === '' || name === 'passover' ? 'person' : name
}
