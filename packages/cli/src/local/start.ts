import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { startAudit } from '@passover/audit'
import {
  type Bus,
  DEFAULT_ID_WINDOW_MS,
  nodeRandom,
  openBus,
  processMetrics,
  StreamLost,
  serveHealth,
  serverClock,
  type TlsFiles,
  TopologyError,
  topologyFromEnvironment,
} from '@passover/bus'
import { Health, healthLog, joinReports } from '@passover/core'
import { logOptions } from '@passover/core/text'
import { dispatcherMetrics, startDispatcher } from '@passover/dispatcher'
import { FolderInUse, ServerChanged, ServerStartFailed, ServerUnavailable, startServer } from '@passover/nats-server'
import { type NotifierSettings, startNotifier } from '@passover/notifier'
import { SYSTEM } from '@passover/schemas'
import { openTracing } from '@passover/tracing'
import { outputSchemas } from '@passover/validation'
import { pino } from 'pino'
import type { TlsOptions } from '../auth/init.js'
import { type IsolatedProject, isIsolatedProject, openIsolatedProject } from '../auth/isolated-project.js'
import type { ServiceRole } from '../auth/principal-records.js'
import { createProject, readServerFile, type ServerFile, writeServerFile } from '../connection/project-directory.js'
import { type Credentials, type ServerSetting, serverUrls } from '../connection/settings.js'
import { CliFailure } from '../errors.js'
import { rotatedLog } from './rotated-log.js'
import { type LocalInstallation, LocalServices } from './services.js'
import { SupervisedServer } from './supervised-server.js'

export interface LocalOptions {
  /** Project directory, in which `.passover` is created. */
  directory: string
  /** Accepts a `.passover` folder that this user did not create here. */
  adopt?: boolean | undefined
  /** Port of the server. A given port must be free; by default the previous port is used, or a free one if it is taken. */
  port?: number | undefined
  /** Gives each agent its own account, issued by this person. A project that has keys stays isolated. */
  isolated?: { person: string; env: NodeJS.ProcessEnv; tls: TlsOptions; wanted: boolean } | undefined
  /** Existing server on which to run the services. */
  external?: { url: string; credentials?: Credentials } | undefined
  log_level?: string | undefined
  /** Milliseconds for which ids of a new stream may be used; an existing stream keeps its own value. */
  id_window_ms?: number | undefined
  /** Port of the health endpoint on loopback; any free one by default. */
  health_port?: number | undefined
  /** Called with a line of text for each notable event at run time. */
  told?(text: string): void
  /** Names of the people of the server, who may see every pass. An isolated server knows its people by their keys instead. */
  people?: readonly string[] | undefined
  /** Set by a caller that starts more parts and records the health address itself when they run. Until then, the installation counts as starting. */
  more_to_come?: true | undefined
  /** Webhook that receives notifications of returns and pending decisions; none if absent. */
  webhook?: NotifierSettings | undefined
  /** Called when the server runs, before any request is accepted. */
  beforeRequests?(server: ServerSetting): Promise<void>
  /** Called with the progress of long steps: fetching a server, reading a large store. */
  progress?(text: string): void
}

export type StartResult =
  | { kind: 'started'; local: LocalInstallation }
  | { kind: 'runs'; project: string; url: string; pid: number; started_at?: number }

const HOST = '127.0.0.1'

/** Starts the project's services, or reports that another process runs them. Throws CliFailure if that fails. */
export async function startLocal(options: LocalOptions): Promise<StartResult> {
  const project = createProject(options.directory, options.adopt)
  const before = readServerFile(project)
  const isolated = await isolationOf(project, options)
  try {
    const server = options.external ? undefined : await startProjectServer(project, before, { options, isolated })
    const access: Access = server ? { url: server.url, user: server.user, password: server.password, isolated } : externalAccess(options)
    const here = { url: access.url, user: access.user, password: access.password, pid: process.pid, started_at: Date.now() }
    if (server) writeServerFile(project, here)
    const local = await startServices({ project, server, access, options })
    if (server && !options.more_to_come) writeServerFile(project, { ...here, health: local.health })
    return { kind: 'started', local }
  } catch (error) {
    isolated?.[Symbol.dispose]()
    if (!(error instanceof FolderInUse)) throw error
    const { owner, url } = error.holder
    const started_at = readServerFile(project)?.started_at
    return { kind: 'runs', project, url: url || (before?.url ?? ''), pid: owner, ...(started_at === undefined ? {} : { started_at }) }
  }
}

async function isolationOf(project: string, { external, isolated }: LocalOptions): Promise<IsolatedProject | undefined> {
  if (external || !isolated || !(isolated.wanted || isIsolatedProject(project))) return undefined
  return openIsolatedProject(project, isolated, isolated.tls)
}

interface Access {
  url: string
  user: string
  password: string
  isolated?: IsolatedProject | undefined
}

function externalAccess({ external }: LocalOptions): Access {
  const credentials = external?.credentials
  const pair = credentials && 'user' in credentials ? { user: credentials.user, password: credentials.pass } : { user: '', password: '' }
  return { url: external?.url ?? '', ...pair }
}

/** Returns the port of a URL; `undefined` for a list of several servers. */
function portOf(url: string): number | undefined {
  return URL.canParse(url) ? Number(new URL(url).port) : undefined
}

/** Starts the server with the same user, password and port as before, so that connected clients can reconnect. */
async function startProjectServer(
  project: string,
  before: ServerFile | undefined,
  { options, isolated }: { options: LocalOptions; isolated: IsolatedProject | undefined },
) {
  const user = isolated ? '' : before?.user || SYSTEM
  const password = isolated ? '' : before?.password || randomBytes(24).toString('base64url')
  const remembered = before ? portOf(before.url) : undefined
  const start = (port: number | undefined) =>
    startServer({
      dir: join(project, 'nats'),
      host: HOST,
      ...(port ? { port } : {}),
      config: isolated?.settings ?? { users: [{ user, password }] },
      ...(options.progress ? { progress: options.progress } : {}),
    })
  const wanted = options.port ?? remembered
  try {
    const running = await start(wanted)
    return { running, start: () => start(running.port), url: running.url, user, password }
  } catch (error) {
    if (!wanted || !(error instanceof ServerStartFailed) || !error.taken) throw startFailure(error)
    if (options.port !== undefined) throw portTaken(wanted)
    const running = await start(undefined)
    options.progress?.(`the last port, ${wanted}, is in use; the server now listens on ${running.url}`)
    return { running, start: () => start(running.port), url: running.url, user, password }
  }
}

function portTaken(port: number): CliFailure {
  return new CliFailure('E042', `port ${port} on ${HOST} is in use by another program`, {
    hint: 'choose another port with --port, or remove --port to use any free one',
  })
}

function startFailure(error: unknown): unknown {
  if (error instanceof ServerUnavailable || error instanceof ServerChanged) return new CliFailure('E040', error.message)
  return error instanceof ServerStartFailed ? new CliFailure('E040', error.message, { hint: `complete log: ${error.log}` }) : error
}

interface Services {
  project: string
  server: Awaited<ReturnType<typeof startProjectServer>> | undefined
  access: Access
  options: LocalOptions
}

async function startServices({ project, server, access, options }: Services): Promise<LocalInstallation> {
  const log = pino({ ...logOptions(), level: options.log_level ?? 'info' }, rotatedLog(join(project, 'passover.log')))
  const opened: AsyncDisposable[] = server ? [server.running] : []
  const buses: Bus[] = []
  const open = async (role: ServiceRole): Promise<Bus> => {
    const bus = await openBus({
      servers: serverUrls(access),
      identity: SYSTEM,
      name: nameOf(role, access),
      onError: (error) => log.warn({ err: error }, 'reported by the connection'),
      ...accessOf(role, access, options),
    })
    opened.unshift(bus)
    buses.push(bus)
    if (role === 'dispatcher') await bus.ensureTopology({ id_window_ms: options.id_window_ms, ...topologyFromEnvironment(process.env) })
    if (role === 'audit') await bus.ensureTopology()
    return bus
  }
  try {
    const bus = await open('dispatcher')
    /** Returns the connection of a service: its own one if the server distinguishes services. */
    const busOf = (role: ServiceRole) => (access.isolated ? open(role) : bus)
    const shared = access.isolated ? {} : accessOf('dispatcher', access, options)
    await options.beforeRequests?.({ url: access.url, origin: 'project', from: 'passover up', project, ...shared })
    const deps = { bus, clock: serverClock(bus), random: nodeRandom, log }
    const id_window_ms = bus.idWindow ?? DEFAULT_ID_WINDOW_MS
    const people = access.isolated?.people
    const audit = await startAudit(
      { ...deps, bus: await busOf('audit'), log: log.child({ part: 'audit' }), schemas: outputSchemas(), ...(people && { people }) },
      { ...peopleOf(options, access), id_window_ms },
    )
    opened.unshift(audit)
    const tracing = await openTracing({ env: process.env, service: 'passover-dispatcher', say: (line) => log.warn(line) })
    const dispatcher = await startDispatcher(
      { ...deps, log: log.child({ part: 'dispatcher' }), tracing },
      { id_window_ms, local_person: localPerson(options, access) },
    )
    const hook = options.webhook && { ...options.webhook, id_window_ms }
    const notifier = hook && (await startNotifier({ ...deps, bus: await busOf('notifier'), log: log.child({ part: 'notifier' }) }, hook))
    const own = new Health({ process: 'up', clock: deps.clock, onChange: healthLog(log.child({ part: 'up' })) })
    const told = (text: string) => {
      log.error({ part: 'up' }, text)
      options.told?.(text)
    }
    const kept = server && new SupervisedServer({ server: server.running, start: server.start, health: own, told })
    const parts = [dispatcher, audit, ...(notifier ? [notifier] : [])]
    own.begin()
    const reports = () => [own.report(), ...parts.map((part) => part.health())]
    const metrics = () => [dispatcherMetrics(dispatcher.stats()), ...audit.metrics(), processMetrics()]
    const health = await serveHealth(() => joinReports('up', reports()), options.health_port ?? 0, metrics)
    return new LocalServices({
      health,
      own,
      notifier,
      project,
      url: access.url,
      server: kept,
      bus,
      others: buses.filter((one) => one !== bus),
      isolated: access.isolated,
      id_window_ms,
      audit,
      dispatcher,
      log,
      remember: server ? { url: access.url, user: access.user, password: access.password } : undefined,
    })
  } catch (error) {
    for (const part of opened) await part[Symbol.asyncDispose]()
    if (error instanceof TopologyError) throw new CliFailure('E030', error.message)
    if (error instanceof StreamLost) throw new CliFailure('E040', error.message, { hint: error.hint })
    throw error
  }
}

/** Returns the person who may decide about their own passes: the only person of a project's own server that checks no names. */
function localPerson({ external, people = [] }: LocalOptions, { isolated }: Access): string | undefined {
  return !external && !isolated && people.length === 1 ? people[0] : undefined
}

/** Returns who may see every pass: without sign-in, each name that is not a registered agent; otherwise the named people. */
function peopleOf({ external, people = [] }: LocalOptions, { isolated }: Access): { open: boolean; people: string[] } {
  return { open: !isolated && external?.credentials === undefined, people: isolated ? [] : [...people] }
}

function nameOf(role: ServiceRole, { isolated }: Access): string {
  return isolated ? `passover up (${role})` : 'passover up'
}

function accessOf(role: ServiceRole, access: Access, { external }: LocalOptions): { credentials?: Credentials; tls?: TlsFiles } {
  const { isolated, user, password } = access
  if (isolated) return { credentials: isolated.credentials(role), ...(isolated.tls ? { tls: isolated.tls } : {}) }
  if (user) return { credentials: { user, pass: password } }
  return external?.credentials ? { credentials: external.credentials } : {}
}
