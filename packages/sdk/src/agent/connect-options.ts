import {
  type Credentials,
  DEFAULT_SERVER,
  type ProjectAccess,
  parseServers,
  type ServerAddresses,
  SettingError,
  serverFromEnvironment,
  signInFromEnvironment,
  type TlsFiles,
  tlsFromEnvironment,
} from '@passover/bus'
import { PassOverError } from '@passover/core'
import { firstIssue, LIMITS, newAgentName } from '@passover/schemas'
import { z } from 'zod'
import type { ReturnListener } from '../delivery/return-events.js'
import { checkOptions, renamedOption } from '../errors/option-errors.js'
import type { FoundProject } from '../project/index.js'
import type { AgentDescription } from '../worker/start-worker.js'

/** Options of `connect`. For an omitted option, `connect` uses the environment, then the project's `.passover/`, then the default. */
export interface ConnectOptions {
  /**
   * Name of the agent.
   * @defaultValue The environment variable `PASSOVER_AGENT`. If that is missing too, `connect` fails with E005.
   */
  agent?: string | undefined
  /**
   * Addresses of the NATS server. They may contain a user and a password.
   * @defaultValue `PASSOVER_SERVER` or `NATS_URL` (comma-separated), else the server of the project, else `nats://127.0.0.1:4222`.
   */
  servers?: string | string[] | undefined
  /**
   * Credentials of the agent.
   * @defaultValue `PASSOVER_CREDENTIALS` (`user:password`, a token, an nkey seed, or the path of a credentials file), else `NATS_CREDS`, `NATS_USER` with
   * `NATS_PASSWORD`, or `NATS_TOKEN`, else the credentials that the project stores for the agent.
   */
  credentials?: Credentials | undefined
  /**
   * Files for TLS: the certificate authority that the server is verified against, and the client's certificate and key.
   * @defaultValue `PASSOVER_CA`: the path of the certificate authority's certificate, in PEM.
   */
  tls?: TlsFiles | undefined
  /**
   * Directory in which the search for the project starts. It is also the directory of passes whose context has no `directory`.
   * @defaultValue The working directory of the process.
   */
  directory?: string | undefined
  /**
   * True if outputs are applied in `directory` without confirmation. The request, the policy, the output and the rights must allow it too. Files that
   * run automatically (hooks, CI, package scripts, …) always need confirmation.
   * @defaultValue `auto_apply` of the user's own `config.json` for `directory` if `directory` is given, else `false`. The server and the
   * policy cannot enable it.
   */
  autoApply?: boolean | undefined
  /**
   * Session of passes whose context has no `session_id`. Its passes count towards `max_passes_per_session`.
   * @defaultValue `PASSOVER_SESSION`, else a new session for this connection. A pass with a given `id` gets a session named after the id. Root passes
   * of these generated sessions do not count.
   */
  sessionId?: string | undefined
  /**
   * Listener for returns, registered when the agent connects. See `Agent.onReturn`.
   * @defaultValue No listener.
   */
  notify?: ReturnListener | undefined
  /**
   * True if returns are kept for this agent while it is not connected. `onDurableReturn` receives them. A return that is not acknowledged within
   * `return_deadline_ms` (a policy field, milliseconds) is recorded as E022 and can still be read by its id.
   * @defaultValue `false`
   */
  durableReturns?: boolean | undefined
  /**
   * Description of the agent in the registry, stored when it starts a worker, if registration is open.
   * @defaultValue The registry is not changed.
   */
  describes?: AgentDescription | undefined
  /**
   * Prefix of the names of all subjects, streams and buckets.
   * @defaultValue `PASSOVER_PREFIX`, else none.
   */
  prefix?: string | undefined
}

const filled = z.string().min(1)
const callback = z.custom<ReturnListener>((value) => typeof value === 'function', 'must be a function')

/** Schema of the options of `connect`. The name and the credentials are validated where they are resolved. */
const connectOptions = z.strictObject({
  agent: z.unknown().optional(),
  servers: z.union([z.string(), z.array(z.string())]).optional(),
  credentials: z
    .union([
      z.strictObject({ user: z.string(), pass: z.string() }),
      z.strictObject({ token: filled }),
      z.strictObject({ nkey: filled }),
      z.strictObject({ creds: filled }),
      z.strictObject({ credsFile: filled }),
    ])
    .optional(),
  tls: z.strictObject({ ca: z.string().optional(), cert: z.string().optional(), key: z.string().optional() }).optional(),
  directory: filled.optional(),
  autoApply: z.boolean().optional(),
  sessionId: z.string().max(LIMITS.short).optional(),
  notify: callback.optional(),
  durableReturns: z.boolean().optional(),
  describes: z.looseObject({}).optional(),
  prefix: z.string().optional(),
} satisfies Record<keyof ConnectOptions, z.ZodType>)

/** Validates the options of `connect`. Throws E005 with the name of the option. */
export function checkConnectOptions(options: ConnectOptions): void {
  const { credentials } = options
  if (credentials instanceof Object && 'creds_file' in credentials) throw renamedOption('credentials.creds_file', 'credentials.credsFile')
  checkOptions(connectOptions, options)
}

export interface Settings {
  agent: string
  servers: string[]
  credentials?: Credentials
  tls?: TlsFiles
  directory: string
  autoApply: boolean
  sessionId?: string
  prefix?: string
  /** Value of `PASSOVER_ID_WINDOW_MS`, used until the stream's own id window is known (decision 92). */
  unknownWindowMs?: number
  /** Source of the server address, for error messages. */
  source: 'argument' | 'environment' | 'project' | 'default'
  /** The option, variable or file that names the address. */
  from: string
}

/** Shortest id window that the services accept. */
const MIN_ID_WINDOW_MS = 1_000

/** Sources from which settings are resolved. */
export interface ConnectEnvironment {
  env: Record<string, string | undefined>
  cwd: string
  /** Finds the project. Called only if neither the argument nor the environment names a server. */
  project?: () => FoundProject | undefined
  /** Returns the credentials that the project keeps for an agent, if agents are isolated. */
  access?: (folder: string, agent: string) => ProjectAccess | undefined
  /** Returns true if the user's own configuration allows automatic application in this directory. */
  mayAutoApply?: (directory: string) => boolean
  /** Returns the text of a credentials file, or `undefined` if there is no such file. */
  readFile: (path: string) => string | undefined
}

/**
 * Resolves each setting from the argument, else the environment, else the project's server, else the default. Throws E005 for a missing or malformed
 * agent name, and E013 for an agent without credentials in a project whose agents are isolated.
 */
export function resolveSettings(options: ConnectOptions, around: ConnectEnvironment): Settings {
  const { env } = around
  const name = options.agent ?? env.PASSOVER_AGENT
  if (name === undefined || name === '') {
    throw new PassOverError('E005', 'no agent name: give connect() one, or set PASSOVER_AGENT', { field: 'agent' })
  }
  const checked = newAgentName.safeParse(name)
  if (!checked.success) {
    throw new PassOverError('E005', `agent: ${firstIssue(checked.error).why}`, { field: 'agent' })
  }
  const { servers, source, from, project, credentials } = withSettingErrors(() => resolveAddress(options, around))
  const access = withSettingErrors(() => resolveAccess(options, around, { agent: checked.data, project, credentials }))
  const sessionId = options.sessionId ?? env.PASSOVER_SESSION
  const prefix = options.prefix ?? env.PASSOVER_PREFIX
  const window = Number(env.PASSOVER_ID_WINDOW_MS)
  return {
    agent: checked.data,
    servers,
    source,
    from,
    directory: options.directory ?? around.cwd,
    autoApply: resolveAutoApply(options, around),
    ...access,
    ...(sessionId && { sessionId }),
    ...(prefix && { prefix }),
    ...(window >= MIN_ID_WINDOW_MS && { unknownWindowMs: window }),
  }
}

/**
 * Resolves `autoApply`. The user's configuration counts only for an explicit `directory`: that a process runs in a directory does not mean that its
 * files may be changed.
 */
function resolveAutoApply({ autoApply, directory }: ConnectOptions, { mayAutoApply }: ConnectEnvironment): boolean {
  if (autoApply !== undefined) return autoApply
  return directory !== undefined && mayAutoApply?.(directory) === true
}

/** Runs `work` and converts an error in an address or a credentials file to E005. */
function withSettingErrors<T>(work: () => T): T {
  try {
    return work()
  } catch (error) {
    if (error instanceof SettingError) throw new PassOverError('E005', `${error.message}; ${error.hint}`, { field: 'servers' })
    throw error
  }
}

type Address = Pick<Settings, 'source' | 'from'> & ServerAddresses & { project?: FoundProject | undefined }

function resolveAddress(options: ConnectOptions, { env, project }: ConnectEnvironment): Address {
  if (options.servers?.length) return { ...parseServers(options.servers, 'servers'), source: 'argument', from: 'connect()' }
  const named = serverFromEnvironment(env)
  if (named) {
    const { by, ...addresses } = named
    return { ...addresses, source: 'environment', from: by }
  }
  const foundProject = project?.()
  if (foundProject)
    return { ...parseServers(foundProject.file.url, foundProject.path), source: 'project', from: foundProject.path, project: foundProject }
  return { servers: [DEFAULT_SERVER], source: 'default', from: 'default' }
}

type Access = Pick<Settings, 'credentials' | 'tls'>

function resolveAccess(
  options: ConnectOptions,
  around: ConnectEnvironment,
  { agent, project, credentials }: { agent: string; project: FoundProject | undefined; credentials: Credentials | undefined },
): Access {
  const named = explicitAccess(options, around, credentials)
  const isolated = project && around.access?.(project.folder, agent)
  if (!project || named.credentials || isolated?.credentials) return { ...isolated, ...named }
  if (isolated) {
    const mend = `passover auth add agent ${agent}`
    const why =
      isolated.revoked_at === undefined
        ? `agent ${agent} has no credentials, and this installation accepts only agents with credentials. Run: ${mend}`
        : `credentials of agent ${agent} were revoked. To give it access again, run: ${mend}`
    throw new PassOverError('E013', why, { mend })
  }
  const { user, password: pass } = project.file
  return user ? { ...named, credentials: { user, pass } } : named
}

function explicitAccess(options: ConnectOptions, { env, readFile }: ConnectEnvironment, inAddress: Credentials | undefined): Access {
  const credentials = options.credentials ?? inAddress ?? signInFromEnvironment(env, readFile)
  return { ...(options.tls ? { tls: options.tls } : tlsFromEnvironment(env)), ...(credentials ? { credentials } : {}) }
}
