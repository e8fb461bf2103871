import { Command, Option } from 'commander'
import { action, type Context } from '../../connection/context.js'
import { resolvePeople, type ServerSetting } from '../../connection/settings.js'
import { usage } from '../../errors.js'
import { integerOption } from '../../input/options.js'
import type { LocalInstallation } from '../../local/services.js'
import type { StartResult } from '../../local/start.js'
import { type StopSignals, stopSignals } from '../../terminal/stop-signals.js'
import { formatCommands, shellWord } from '../../terminal/text.js'
import { TLS_CA_HELP, TLS_CERT_HELP, TLS_HELP, TLS_KEY_HELP } from './auth.js'

/** Minimum id window. Services refuse shorter ones. */
const MIN_ID_WINDOW_MS = 1_000

interface UpOptions {
  port?: number
  http?: number | true
  log?: string
  isolated?: true
  tls?: true
  tlsCert?: string
  tlsKey?: string
  tlsCa?: string
  adopt?: true
}

/** `passover up` */
export function upCommand(): Command {
  return new Command('up')
    .description("run this project's server, dispatcher and audit service until Ctrl-C")
    .option('--port <n>', 'port of the server (default: its last port, else a free one)', integerOption('--port', 1, 65_535))
    .option('--http [port]', 'also serve the HTTP API, on this machine only (default port: 7420)', integerOption('--http', 0, 65_535))
    .addOption(
      new Option('--log <level>', 'log level of .passover/passover.log').choices(['error', 'warn', 'info', 'debug']).default('info'),
    )
    .option('--isolated', 'give each agent its own account, so that agents cannot act outside of their rights')
    .option('--tls', TLS_HELP)
    .option('--tls-cert <file>', TLS_CERT_HELP)
    .option('--tls-key <file>', TLS_KEY_HELP)
    .option('--tls-ca <file>', TLS_CA_HELP)
    .option('--adopt', 'use a .passover/ that was moved, restored, or created by an older version')
    .addHelpText(
      'after',
      '\nData, address and credentials are kept in .passover/ of the project. If --server or NATS_URL names a server,\nthe services use that one. Ctrl-C finishes current work and stops; a second Ctrl-C stops immediately.\n\nExample:\n  passover up',
    )
    .action(action<UpOptions, []>(run))
}

async function run(context: Context, options: UpOptions): Promise<number> {
  const { terminal } = context
  using signals = stopSignals(() => terminal.note('Stopping immediately.'))
  const progress = terminal.progress()
  const slow = (await looksUp(context)) ? undefined : setTimeout(() => progress.say('starting'), 100)
  const started = await start(context, options, (text) => progress.say(text)).finally(() => {
    clearTimeout(slow)
    progress.stop()
  })
  if (started.kind === 'started') return await serveAll(context, started.local, { signals, http: options.http })
  return await alreadyUp(context, started, options)
}

/** Reports that the project is already up or starting. Returns exit code 1 if it does not serve the requested port or HTTP API. */
async function alreadyUp({ terminal }: Context, { url, pid, project, started_at }: Runs, options: UpOptions): Promise<number> {
  const { isStarting, readServerFile } = await import('../../connection/project-directory.js')
  const file = readServerFile(project)
  const starting = isStarting(file, pid)
  const http = starting ? undefined : file?.http
  const wanted = unmetPortRequest(url, options.port)
  const wanted_http = starting ? undefined : unmetHttpRequest(http, options.http)
  const document = {
    state: starting ? 'starting' : 'already_running',
    url,
    pid,
    directory: project,
    ...(http === undefined ? {} : { http }),
    ...(started_at ? { started_at } : {}),
    ...(wanted === undefined ? {} : { port_not_taken: wanted }),
    ...(wanted_http === undefined ? {} : { http_not_served: wanted_http }),
  }
  const at = http === undefined ? '' : ` HTTP API at ${http}/openapi.json.`
  terminal.show(document, () =>
    starting
      ? `Process ${pid} is starting the server of ${project} right now.`
      : `Already running: ${url} (process ${pid}), data in ${project}.${at}`,
  )
  if (wanted === undefined && wanted_http === undefined) return 0
  if (terminal.mode === 'human' && wanted !== undefined)
    terminal.note(`It does not use port ${wanted}. To change the port, stop process ${pid}, then run: passover up --port ${wanted}`)
  if (terminal.mode === 'human' && wanted_http !== undefined)
    terminal.note(
      `It serves no HTTP API${http === undefined ? '' : ' on that port'}. To serve one, run: passover gateway${typeof wanted_http === 'number' ? ` --port ${wanted_http}` : ''}`,
    )
  return 1
}

type Runs = Extract<StartResult, { kind: 'runs' }>

/** Returns the requested HTTP port, or `true` for any port, if the HTTP API is not served there; otherwise `undefined`. */
export function unmetHttpRequest(http: string | undefined, asked: number | true | undefined): number | true | undefined {
  if (asked === undefined || (http !== undefined && (asked === true || asked === 0))) return undefined
  return http !== undefined && Number(new URL(http).port) === asked ? undefined : asked
}

/** Returns the requested port if the running server has another one, else `undefined`. */
export function unmetPortRequest(url: string, port: number | undefined): number | undefined {
  return port === undefined || url === '' || Number(new URL(url).port) === port ? undefined : port
}

/** True if the process that last wrote the server file is alive. The progress message is left out then, because `up` probably starts nothing. */
async function looksUp({ directory }: Context): Promise<boolean> {
  const { findProject, readServerFile } = await import('../../connection/project-directory.js')
  const project = findProject(directory)
  const pid = project ? readServerFile(project)?.pid : undefined
  if (!pid) return false
  const { isAlive } = await import('@passover/nats-server/process-liveness')
  return isAlive(pid, undefined)
}

async function start(context: Context, options: UpOptions, progress: (text: string) => void): Promise<StartResult> {
  const { startLocal } = await import('../../local/start.js')
  const { findProjectAbove } = await import('../../connection/project-directory.js')
  const { publishInitialPolicy } = await import('../../local/initial-policy.js')
  const { healthPortFrom } = await import('../../connection/health-port.js')
  const { dirname } = await import('node:path')
  const { ignoredText, searchProject } = await import('@passover/sdk/internal/project')
  const { project, ignored } = searchProject(context.directory)
  if (!options.adopt) for (const one of ignored) context.terminal.note(ignoredText(one))
  const found = context.flags.directory ? undefined : project?.folder
  const external = await externalServer(context)
  if (external && options.isolated)
    throw usage('--isolated works only with the project’s own server', 'for another server, create keys with passover auth init')
  const above = project || external || context.flags.directory ? undefined : findProjectAbove(context.directory)
  if (above && context.terminal.mode === 'human')
    context.terminal.note(
      `Starting a new project in ${context.directory}. The project in ${above} is separate, because the two folders are not in one repository. To use that one: passover up --directory ${shellWord(above)}`,
    )
  const tls = options.tls || options.tlsCert || options.tlsKey || options.tlsCa
  if (tls && !options.isolated) throw usage('--tls needs --isolated', 'passover up --isolated --tls')
  if (external && options.port)
    throw usage('--port works only with the project’s own server', 'remove --port, or remove --server and NATS_URL')
  const beforeRequests = async (server: ServerSetting) => {
    const line = await publishInitialPolicy(context, server)
    if (line && context.terminal.mode === 'human') context.terminal.note(line)
  }
  return startLocal({
    directory: found ? dirname(found) : context.directory,
    adopt: options.adopt,
    port: options.port,
    isolated: { person: context.person, env: context.env, tls: options, wanted: options.isolated === true },
    more_to_come: options.http === undefined ? undefined : true,
    external,
    log_level: options.log,
    id_window_ms: idWindowOf(context),
    people: resolvePeople(context.flags, context.env),
    webhook: await webhookOf(context),
    beforeRequests,
    progress,
    health_port: healthPortFrom(context.env),
    told: (text) => context.terminal.note(text),
  })
}

/** Reads the settings of the webhook. Address and secret must be set together, because an unsigned notice does not prove its sender. */
async function webhookOf({ env }: Context) {
  const { notifierOptions, webhookFrom } = await import('@passover/notifier')
  const { issueTexts } = await import('@passover/schemas')
  try {
    const settings = webhookFrom(env)
    const parsed = settings && notifierOptions.safeParse(settings)
    if (parsed?.success === false) throw new Error(issueTexts(parsed.error.issues, 2, 'webhook').join('; '))
    return settings
  } catch (error) {
    throw usage(
      `webhook notifications cannot be sent: ${error instanceof Error ? error.message : String(error)}`,
      'PASSOVER_WEBHOOK_URL must be an http(s) address, and PASSOVER_WEBHOOK_SECRET must have at least 16 characters',
    )
  }
}

/** Reads `PASSOVER_ID_WINDOW_MS` in the same way as the dispatcher's own process. */
function idWindowOf({ env }: Context): number | undefined {
  const text = env.PASSOVER_ID_WINDOW_MS
  if (!text) return undefined
  const window = Number(text)
  if (Number.isSafeInteger(window) && window >= MIN_ID_WINDOW_MS) return window
  throw usage(
    `PASSOVER_ID_WINDOW_MS does not accept "${text}"`,
    'expected a whole number of milliseconds, 1000 or more: 3600000 is an hour',
  )
}

/** Returns the server that is named explicitly, for which `up` starts no server, or `undefined`. */
async function externalServer({ flags, env, directory }: Context) {
  const named = flags.server ?? env.PASSOVER_SERVER ?? env.NATS_URL
  if (!named) return undefined
  const by = flags.server ? '--server' : env.PASSOVER_SERVER ? 'PASSOVER_SERVER' : 'NATS_URL'
  const { resolveServer } = await import('../../connection/settings.js')
  return resolveServer({ server: named, by }, env, directory)
}

/**
 * Serves until stopped. With `--http`, starts the gateway last and stops it first, because it can answer nothing without the services. Stops the
 * services even if the gateway fails to start.
 */
async function serveAll(
  context: Context,
  local: LocalInstallation,
  { signals, http }: { signals: StopSignals; http: number | true | undefined },
) {
  const { terminal } = context
  try {
    await using gateway = http === undefined ? undefined : await startHttp(context, local, http)
    await showRunning(context, local, gateway?.url)
    const why = await Promise.race([signals.first, local.failed])
    if (why !== 'stop') {
      terminal.note(`${terminal.noteColors.red('✗')} ${why}; to start it again: passover up`)
      terminal.note(`  the logs are ${local.project}/passover.log and ${local.project}/nats/nats-server.log`)
      return 1
    }
    terminal.note('Stopping after current work has finished. Press Ctrl-C again to stop immediately.')
  } finally {
    await local.stop()
  }
  terminal.note('Stopped.')
  return 0
}

async function startHttp(context: Context, local: LocalInstallation, http: number | true) {
  const { serveGateway, projectTokensFile } = await import('../../gateway/serve.js')
  const server: ServerSetting = { ...(await serverOf(context, local)), url: local.url }
  const port = http === true ? undefined : http
  const gateway = await serveGateway(context, server, { port, tokens: projectTokensFile(local.project) })
  await rememberHttp(local, gateway.url)
  return gateway
}

/** Stores the HTTP address, so that a second `up` can print it. With an external server there is no file to store it in. */
async function rememberHttp({ project, server, health }: LocalInstallation, http: string): Promise<void> {
  const { readServerFile, writeServerFile } = await import('../../connection/project-directory.js')
  const file = server && readServerFile(project)
  if (file) writeServerFile(project, { ...file, health, http })
}

async function serverOf(context: Context, { project }: LocalInstallation): Promise<ServerSetting> {
  const external = await externalServer(context)
  if (external) return external
  const { readServerFile } = await import('../../connection/project-directory.js')
  const { user = '', password = '' } = readServerFile(project) ?? {}
  return { url: '', ...(user ? { credentials: { user, pass: password } } : {}), origin: 'project', from: 'passover up', project }
}

function nextSteps(isolated: boolean): string[] {
  if (!isolated) return ['passover work echo -- printenv PASSOVER_OBJECTIVE', 'passover request --to echo --objective "hello"']
  return [
    'passover auth add agent echo',
    'passover auth add agent alice',
    'passover work echo -- printenv PASSOVER_OBJECTIVE',
    'passover request --from alice --to echo --objective "hello"',
  ]
}

/** @param api - address of the HTTP API, if it is served */
async function showRunning({ terminal, env }: Context, local: LocalInstallation, api: string | undefined): Promise<void> {
  const { isIsolatedProject } = await import('../../auth/isolated-project.js')
  const { url, server, project } = local
  const { bold, dim, green } = terminal.colors
  terminal.show(
    {
      state: 'running',
      url,
      pid: process.pid,
      directory: project,
      health: local.health,
      ...(api === undefined ? {} : { http: api }),
      ...(server ? { server_version: server.version, server_pid: server.pid } : {}),
    },
    () =>
      [
        `${green('✓')} Passover is up at ${bold(url)}${server ? dim(`  nats-server ${server.version}`) : ''}`,
        `  data and log in ${project}`,
        ...(api === undefined ? [] : [`  HTTP API at ${bold(`${api}/openapi.json`)}`]),
        dim(`  health at ${local.health}/readyz`),
        '',
        'Next, in another terminal:',
        ...nextSteps(isIsolatedProject(project)).map((line) => formatCommands(`  ${line}`, env)),
        '',
        dim('Press Ctrl-C to stop.'),
      ].join('\n'),
  )
}
