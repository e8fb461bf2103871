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
import { type IgnoredFile, searchProject } from '@passover/sdk/project'
import { CliFailure, usage } from '../errors.js'

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
  /** One address, or several separated by commas; {@link serverUrls} gives them apart. */
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

/** The addresses of a server, or of the members of a cluster. */
export function serverUrls({ url }: Pick<ServerSetting, 'url'>): string[] {
  return url.split(',')
}

const NAME = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/

/** What was named before a project is looked for, and by which flag or variable (else --server). */
export type ServerFlags = Pick<GlobalFlags, 'server'> & { by?: string }

/**
 * Which server: flag > PASSOVER_SERVER > `.passover/` found upward > NATS_URL. CliFailure E040 when none is named, E030 when the only file
 * that names one is not trusted.
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

/** Where agents are isolated the file has no password: each has credentials of its own. */
function signInOf({ user, password }: { user: string; password: string }): { credentials?: Credentials } {
  return user ? { credentials: { user, pass: password } } : {}
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
export function verifiesNames({ credentials, project }: ServerSetting, person: string): boolean {
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

/** Returns the people of a server that this process starts: the person who runs it, and those in PASSOVER_PEOPLE. */
export function resolvePeople(flags: Pick<GlobalFlags, 'as'>, env: NodeJS.ProcessEnv): string[] {
  const named = (env.PASSOVER_PEOPLE ?? '').split(',').map((name) => name.trim())
  return [...new Set([resolvePerson(flags, env), ...named.filter((name) => name !== '')])]
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
