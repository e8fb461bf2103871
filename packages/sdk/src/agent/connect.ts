import { hostname } from 'node:os'
import { BusUnreachable, machineTiming, nodeRandom, openBus, projectAccess, readTextFile, serverClock } from '@passover/bus'
import { PassOverError } from '@passover/core'
import { openTracing } from '@passover/tracing'
import { outputSchemas } from '@passover/validation'
import { registerDurableReturns } from '../durable-returns/durable-returns.js'
import { invalidOption, readSafely } from '../errors/option-errors.js'
import { findProjectServer } from '../project/find-project-server.js'
import { mayAutoApplyIn } from '../project/user-config.js'
import { say } from '../runtime/stderr.js'
import { CrashIsolation } from '../worker/crash-isolation.js'
import { type Agent, createAgent } from './agent.js'
import { type ConnectOptions, checkConnectOptions, resolveSettings, type Settings } from './connect-options.js'

const REGISTRATION_CHECK_MS = 10_000
/** Shared by all agents of the process, because a crash of the process ends the passes of all of them. */
const isolation = new CrashIsolation(machineTiming)

/**
 * Connects as an agent. Each setting comes from the first source that has it: the argument, the environment, the project (`.passover/`), the default
 * value.
 *
 * @param options - The name of the agent, or all options.
 * @param more - The other options, if the first argument is the name.
 * @returns The agent. Dispose it to drain its workers and close the connection.
 * @throws PassOverError with code E005: the name is missing or malformed, or an option is unknown or has a wrong value. E013: the agent has no credentials for
 * the project, or they were revoked. E030: the only project file that was found is not trusted. E040: the server cannot be reached or refuses the
 * credentials.
 * @example
 * ```ts
 * await using alice = await connect('alice', { directory: '/path/to/project' })
 * const output = await alice.passOver({ subagent: 'greeter', reason: 'politeness', work_context: { objective: 'world' } })
 * ```
 */
export async function connect(options: string | ConnectOptions = {}, more: Omit<ConnectOptions, 'agent'> = {}): Promise<Agent> {
  const given = mergeOptions(options, more)
  const cwd = workingDirectory(given)
  const project = () => findProjectServer(given.directory ?? cwd)
  const access = (folder: string, name: string) => projectAccess(folder, { role: 'agent', name })
  const around = {
    env: process.env,
    cwd,
    project,
    access,
    readFile: readTextFile,
    mayAutoApply: (path: string) => mayAutoApplyIn(path, say),
  }
  const settings = resolveSettings(given, around)
  reportServer(settings)
  const bus = await openConnection(settings)
  const tracing = await openTracing({ env: process.env, service: settings.agent, say })
  const deps = {
    bus,
    clock: serverClock(bus),
    random: nodeRandom,
    registered_ms: REGISTRATION_CHECK_MS,
    tracing,
    say,
    servers: settings.servers,
    process: { host: hostname(), pid: process.pid },
    schemas: outputSchemas(),
  }
  try {
    if (given.durableReturns) await registerDurableReturns(deps)
  } catch (error) {
    await bus[Symbol.asyncDispose]()
    await tracing[Symbol.asyncDispose]()
    throw error
  }
  return createAgent(deps, {
    durableReturns: given.durableReturns,
    directory: settings.directory,
    autoApply: settings.autoApply,
    describes: given.describes,
    sessionId: settings.sessionId,
    unknownWindowMs: settings.unknownWindowMs,
    notify: given.notify,
    isolation,
  })
}

/** Returns the working directory, or `directory` if the working directory has been deleted and has no path. */
function workingDirectory({ directory }: ConnectOptions): string {
  try {
    return process.cwd()
  } catch {
    if (directory !== undefined) return directory
    throw invalidOption('directory', 'the working directory no longer exists; set another one')
  }
}

function mergeOptions(options: string | ConnectOptions, more: Omit<ConnectOptions, 'agent'>): ConnectOptions {
  for (const one of [options, more])
    if (typeof one !== 'string' && (typeof one !== 'object' || one === null)) throw invalidOption('options', 'must be an object')
  const given = readSafely([options, more], 'options', () =>
    typeof options === 'string' ? { ...more, agent: options } : { ...more, ...options },
  )
  checkConnectOptions(given)
  return given
}

const announced = new Set<string>()

/** Prints the server of the project file, once per file. Called if neither the code nor the environment names a server. */
function reportServer({ source, from, servers }: Settings): void {
  if (source !== 'project' || announced.has(from)) return
  announced.add(from)
  say(`passover: using ${servers.join(', ')} (${from})`)
}

/** Returns a hint if no server is configured: the project may be in another directory. */
function noProjectHint({ agent, directory, source }: Settings): string {
  if (source !== 'default') return ''
  return ` (No project was found in ${directory} or above it in its repository. To use a project elsewhere: connect('${agent}', { directory: '<its path>' }).)`
}

async function openConnection(settings: Settings) {
  const { agent, servers, credentials, tls, prefix } = settings
  try {
    return await openBus({
      servers,
      identity: agent,
      ...(credentials && { credentials }),
      ...(tls && { tls }),
      ...(prefix !== undefined && { prefix }),
    })
  } catch (error) {
    if (!(error instanceof BusUnreachable)) throw error
    throw new PassOverError('E040', `${error.message}. ${error.hint}${noProjectHint(settings)}`, {
      servers,
      from: settings.from,
      ...(error.refused ? { mend: error.hint } : {}),
    })
  }
}
