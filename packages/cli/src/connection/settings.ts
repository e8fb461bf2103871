import { existsSync } from 'node:fs'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import {
  type Credentials,
  parseServers,
  readTextFile,
  SettingError,
  signInFromEnvironment,
  type TlsFiles,
  tlsFromEnvironment,
} from '@passover/bus/settings'
import { type IgnoredFile, searchProject } from '@passover/sdk/internal/project'
import { CliFailure, usage } from '../errors.js'

/** Flags of every command. */
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
  /** One address, or several separated by commas; {@link serverUrls} splits them. */
  url: string
  credentials?: Credentials
  /** TLS files; absent if the certificate authorities of the system are trusted. */
  tls?: TlsFiles
  /** Kind of source that the setting came from. */
  origin: 'flag' | 'environment' | 'project'
  /** Flag, variable or file that named the server. */
  from: string
  /** The `.passover` folder that the server belongs to. */
  project?: string
  /** Project files that name a server but are not trusted. */
  ignored?: readonly IgnoredFile[]
}

/** Returns the addresses of a server, or of the members of a cluster. */
export function serverUrls({ url }: Pick<ServerSetting, 'url'>): string[] {
  return url.split(',')
}

const NAME = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/

/** A server named explicitly, and the flag or variable that named it (default: --server). */
export type ServerFlags = Pick<GlobalFlags, 'server'> & { by?: string }

/**
 * Selects the server: flag > PASSOVER_SERVER > `.passover/` found upward > NATS_URL. Throws CliFailure E040 if none is named, E030 if the
 * only file that names one is not trusted.
 */
export function resolveServer(flags: ServerFlags, env: NodeJS.ProcessEnv, directory: string): ServerSetting {
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
    hint: 'to start one here: passover up',
  })
}

interface Address {
  text: string
  /** Flag or variable that the address came from. */
  by: string
  origin: ServerSetting['origin']
}

function named({ text, by, origin }: Address, env: NodeJS.ProcessEnv, directory: string): ServerSetting {
  try {
    const { servers, credentials } = parseServers(text, by)
    const url = servers.join(',')
    const known = credentials ?? signInFromEnvironment(env, readTextFile)
    const more = known ? { credentials: known } : fromProject(url, directory)
    return { url, ...more, ...tlsFromEnvironment(env), origin, from: by }
  } catch (error) {
    if (error instanceof SettingError) throw usage(error.message, error.hint)
    throw error
  }
}

/** Returns the credentials in a server file. With isolated agents it has no password, because each principal has its own credentials. */
function signInOf({ user, password }: { user: string; password: string }): { credentials?: Credentials } {
  return user ? { credentials: { user, pass: password } } : {}
}

/** Returns the project's credentials if the address is the project's own, so that `--server` with that address works. */
function fromProject(url: string, directory: string): Pick<ServerSetting, 'credentials' | 'project'> {
  const { project } = searchProject(directory)
  return project?.file.url === url ? { ...signInOf(project.file), project: project.folder } : {}
}

/**
 * True if the server verifies this person's name: it has keys for each principal, or the connection uses a user of that name. Otherwise any
 * process that reaches the server can claim any name, whatever a message says about its author.
 */
export function verifiesNames({ credentials, project }: ServerSetting, person: string): boolean {
  if (project !== undefined) return existsSync(join(project, 'auth', 'keys.json'))
  if (credentials === undefined) return false
  return 'user' in credentials ? credentials.user === person : !('token' in credentials)
}

/** Returns the name that a person acts under: --as > PASSOVER_AS > the system's user. */
export function resolvePerson(flags: Pick<GlobalFlags, 'as'>, env: NodeJS.ProcessEnv): string {
  const given = flags.as ?? env.PASSOVER_AS
  if (given !== undefined) {
    if (!NAME.test(given) || given === 'passover') {
      throw usage(
        `"${given}" cannot be a person's name`,
        'a name has 1 to 64 characters of A-Z a-z 0-9 _ - and starts with a letter or digit; "passover" is reserved',
      )
    }
    return given
  }
  return personFromUser(systemUser(env))
}

/** Returns the people of a server that this process starts: the acting person and those in PASSOVER_PEOPLE. */
export function resolvePeople(flags: Pick<GlobalFlags, 'as'>, env: NodeJS.ProcessEnv): string[] {
  const named = (env.PASSOVER_PEOPLE ?? '').split(',').map((name) => name.trim())
  return [...new Set([resolvePerson(flags, env), ...named.filter((name) => name !== '')])]
}

function systemUser(env: NodeJS.ProcessEnv): string {
  try {
    return userInfo().username
  } catch {
    // In a container, the user id may have no name.
    return env.USER ?? env.LOGNAME ?? 'person'
  }
}

/** Converts a system's user name to a person's name. Characters that a subject cannot contain become `-`. */
export function personFromUser(user: string): string {
  const name = user
    .replace(/[^A-Za-z0-9_-]+/g, '-')
    .replace(/^[^A-Za-z0-9]+/, '')
    .slice(0, 64)
  return name === '' || name === 'passover' ? 'person' : name
}
