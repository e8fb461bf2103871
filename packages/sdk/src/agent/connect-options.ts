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
import { agentName, firstIssue, LIMITS } from '@passover/schemas'
import { z } from 'zod'
import type { ReturnListener } from '../delivery/return-events.js'
import type { FoundProject } from '../project/index.js'
import type { AgentDescription } from '../worker/start-worker.js'

/** How an agent connects. Options that are left out come from the environment, then from the project's `.passover/`, then from defaults. */
export interface ConnectOptions {
  /**
   * Name of the agent.
   * @defaultValue The variable `PASSOVER_AGENT`. Without either, `connect` fails with E005.
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
   * `NATS_PASSWORD`, or `NATS_TOKEN`, else those that the project keeps for the agent.
   */
  credentials?: Credentials | undefined
  /**
   * Files that check the certificate of the server.
   * @defaultValue `PASSOVER_CA`: the path of the certificate of the authority, in PEM.
   */
  tls?: TlsFiles | undefined
  /**
   * Directory where the project is looked for. Contexts that name no directory name this one.
   * @defaultValue The working directory of the process.
   */
  directory?: string | undefined
  /**
   * Whether an output is applied in `directory` without a question, where request, policy, output and rights allow it too. Files that run by themselves
   * (hooks, CI, package scripts, …) are never applied so.
   * @defaultValue `auto_apply` of the user's own `config.json` for `directory`, where that option is given, else `false`. Server and policy cannot turn it on.
   */
  auto_apply?: boolean | undefined
  /**
   * Session of contexts that name none. Its passes count for `max_passes_per_session`.
   * @defaultValue `PASSOVER_SESSION`, else a session of this connection, whose passes without a parent are not counted.
   */
  session_id?: string | undefined
  /**
   * Listens to returns from the beginning, as `Agent.onReturn` does.
   * @defaultValue No listener.
   */
  notify?: ReturnListener | undefined
  /**
   * Whether returns wait for this agent while it is away. `onDurableReturn` receives them. A return that is not taken within `return_deadline_ms` (a policy
   * field, milliseconds) is recorded as E022, and can still be read by its id.
   * @defaultValue `false`
   */
  durable_returns?: boolean | undefined
  /**
   * What the registry says of the agent once it works, where registration is open.
   * @defaultValue Nothing is changed in the registry.
   */
  describes?: AgentDescription | undefined
  /**
   * Prefix of all subjects, streams and buckets.
   * @defaultValue `PASSOVER_PREFIX`, else none.
   */
  prefix?: string | undefined
}

const filled = z.string().min(1)
const callback = z.custom<ReturnListener>((value) => typeof value === 'function', 'must be a function')

/** What `connect` takes. The name and the credentials are checked where they are resolved. */
export const connectOptions = z.strictObject({
  agent: z.unknown().optional(),
  servers: z.union([z.string(), z.array(z.string())]).optional(),
  credentials: z
    .union([
      z.strictObject({ user: z.string(), pass: z.string() }),
      z.strictObject({ token: filled }),
      z.strictObject({ nkey: filled }),
      z.strictObject({ creds: filled }),
      z.strictObject({ creds_file: filled }),
    ])
    .optional(),
  tls: z.strictObject({ ca: z.string().optional(), cert: z.string().optional(), key: z.string().optional() }).optional(),
  directory: filled.optional(),
  auto_apply: z.boolean().optional(),
  session_id: z.string().max(LIMITS.short).optional(),
  notify: callback.optional(),
  durable_returns: z.boolean().optional(),
  describes: z.looseObject({}).optional(),
  prefix: z.string().optional(),
} satisfies Record<keyof ConnectOptions, z.ZodType>)

export interface Settings {
  agent: string
  servers: string[]
  credentials?: Credentials
  tls?: TlsFiles
  directory: string
  auto_apply: boolean
  session_id?: string
  prefix?: string
  /** PASSOVER_ID_WINDOW_MS: for as long as nobody told the stream's own (decision 92). */
  unknown_window_ms?: number
  /** Where the address came from, for error messages. */
  source: 'argument' | 'environment' | 'project' | 'default'
  /** The option, the variable or the file that names it. */
  from: string
}

/** No service takes a shorter one. */
const MIN_ID_WINDOW_MS = 1_000

/** What settings are resolved from. */
export interface ConnectEnvironment {
  env: Record<string, string | undefined>
  cwd: string
  /** Looked up only where neither argument nor environment names a server. */
  project?: () => FoundProject | undefined
  /** What the project keeps for an agent, where agents are isolated. */
  access?: (folder: string, agent: string) => ProjectAccess | undefined
  /** What the user's own configuration allows in this directory. */
  mayAutoApply?: (directory: string) => boolean
  /** The text of a credentials file; undefined when there is no such file. */
  readFile: (path: string) => string | undefined
}

/**
 * Argument > environment > the project's server > default, field by field.
 * E005 for a missing or malformed agent name, E013 for an agent without credentials in a project whose agents are isolated.
 */
export function resolveSettings(options: ConnectOptions, around: ConnectEnvironment): Settings {
  const { env } = around
  const name = options.agent ?? env.PASSOVER_AGENT
  if (name === undefined || name === '') {
    throw new PassOverError('E005', 'no agent name: give connect() one, or set PASSOVER_AGENT', { field: 'agent' })
  }
  const checked = agentName.safeParse(name)
  if (!checked.success) {
    throw new PassOverError('E005', `agent: ${firstIssue(checked.error).why}`, { field: 'agent' })
  }
  const { servers, source, from, project, credentials } = withSettingErrors(() => resolveAddress(options, around))
  const access = withSettingErrors(() => resolveAccess(options, around, { agent: checked.data, project, credentials }))
  const session_id = options.session_id ?? env.PASSOVER_SESSION
  const prefix = options.prefix ?? env.PASSOVER_PREFIX
  const window = Number(env.PASSOVER_ID_WINDOW_MS)
  return {
    agent: checked.data,
    servers,
    source,
    from,
    directory: options.directory ?? around.cwd,
    auto_apply: autoApply(options, around),
    ...access,
    ...(session_id && { session_id }),
    ...(prefix && { prefix }),
    ...(window >= MIN_ID_WINDOW_MS && { unknown_window_ms: window }),
  }
}

/** The working directory of a process does not show that its files may be written: `directory` has to be given. */
function autoApply({ auto_apply, directory }: ConnectOptions, { mayAutoApply }: ConnectEnvironment): boolean {
  if (auto_apply !== undefined) return auto_apply
  return directory !== undefined && mayAutoApply?.(directory) === true
}

/** What is wrong with an address or a credentials file, as an error of the sdk. */
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
  const found = project?.()
  if (found) return { ...parseServers(found.file.url, found.path), source: 'project', from: found.path, project: found }
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
        ? `agent ${agent} was not added: this installation lets in only agents that have credentials. Run: ${mend}`
        : `credentials of agent ${agent} were revoked. To let it in again, run: ${mend}`
    throw new PassOverError('E013', why, { mend })
  }
  const { user, password: pass } = project.file
  return user ? { ...named, credentials: { user, pass } } : named
}

function explicitAccess(options: ConnectOptions, { env, readFile }: ConnectEnvironment, inAddress: Credentials | undefined): Access {
  const credentials = options.credentials ?? inAddress ?? signInFromEnvironment(env, readFile)
  return { ...(options.tls ? { tls: options.tls } : tlsFromEnvironment(env)), ...(credentials ? { credentials } : {}) }
}
