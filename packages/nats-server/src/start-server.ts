import { type ChildProcess, spawn } from 'node:child_process'
import { accessSync, closeSync, constants, mkdirSync, openSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { delimiter, join, resolve } from 'node:path'
import { type ClusterSettings, type ServerPlace, type ServerSettings, serverConfig } from './config.js'
import { type Holder, releaseLock, takeLock, writeLock } from './data-folder-lock.js'
import { isAlive } from './process-liveness.js'
import { handshake, type Ports, type ServerExit, untilReady } from './readiness.js'
import { requireIsolation, resolveServerBinary } from './resolve-binary.js'

export interface ServerOptions {
  /** Dedicated folder for store, configuration, log and lock. Created if missing. */
  dir: string
  /** Port. Default: a free one. */
  port?: number
  /** Listen address. Default 127.0.0.1. */
  host?: string
  name?: string
  config?: ServerSettings
  cluster?: ClusterSettings
  /** Path of the nats-server to run. Default: the result of resolveServerBinary. */
  binary?: string
  progress?: (message: string) => void
  /** Milliseconds until the server must be ready. After a crash it reads a large store in full first. Default 120,000. */
  start_timeout_ms?: number
  /** Milliseconds until a stopping server is killed. One with thousands of consumers takes half a minute to stop. Default 60,000. */
  stop_timeout_ms?: number
}

/** A server that is ready. Disposing stops it. */
export interface RunningServer extends AsyncDisposable {
  readonly url: string
  readonly port: number
  readonly pid: number
  readonly version: string
  /** Path of its log. */
  readonly log: string
  /** URL of the monitoring endpoint, if config.monitor is set. */
  readonly monitor?: string
  readonly exited: Promise<ServerExit>
  /** Stops the server gracefully, and kills it after stop_timeout_ms. Repeated calls wait for the same exit. */
  stop(): Promise<ServerExit>
  /** Sends SIGKILL, to simulate a crash. */
  kill(): Promise<ServerExit>
  /** Sends a signal without waiting: SIGSTOP, SIGCONT. */
  signal(name: NodeJS.Signals): void
}

/**
 * Runs a nats-server with JetStream on a folder. Resolves once it accepts connections. It is not in the terminal's process group, so that Ctrl-C
 * reaches its owner first. It ends when its owner ends, even if killed (Linux; elsewhere the next start on the folder stops it). Throws FolderInUse,
 * ServerChanged, ServerStartFailed, ServerUnavailable.
 */
export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const dir = resolve(options.dir)
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  const binary = options.binary ?? (await resolveServerBinary(options.progress ? { progress: options.progress } : {})).path
  const lock = join(dir, 'server.lock')
  const left = takeLock(lock, dir)
  try {
    await endOrphan(left, options.stop_timeout_ms ?? 60_000)
    return await launch({ dir, binary, lock, options })
  } catch (error) {
    releaseLock(lock)
    throw error
  }
}

interface Launch {
  dir: string
  binary: string
  lock: string
  options: ServerOptions
}

async function launch({ dir, binary, lock, options }: Launch): Promise<RunningServer> {
  const log = join(dir, 'nats-server.log')
  const place: ServerPlace = {
    name: options.name ?? `passover-${process.pid}`,
    host: options.host ?? '127.0.0.1',
    port: options.port ?? -1,
    store: dir,
    ports_folder: dir,
    log,
  }
  const config = join(dir, 'nats-server.conf')
  rmSync(config, { force: true })
  writeFileSync(config, serverConfig(place, options.config, options.cluster), { mode: 0o600 })

  const logged = sizeOf(log)
  const child = spawnServer(binary, config, log)
  const exited = exitOf(child)
  endWithUs(child)
  void exited.then(() => releaseLock(lock))
  try {
    const pid = child.pid
    if (pid === undefined) throw new Error(`${binary} could not be run`)
    writeLock(lock, { pid, url: '' })
    const ports = await untilReady({ dir, pid, exited, log, logged, timeout_ms: options.start_timeout_ms ?? 120_000 })
    const url = `nats://${reachable(place.host)}:${ports.port}`
    const { version } = await handshake(reachable(place.host), ports.port)
    if (options.config?.operator) requireIsolation(version)
    writeLock(lock, { pid, url })
    child.unref()
    return running({ child, exited, url, pid, version, log, ...ports }, options.stop_timeout_ms ?? 60_000)
  } catch (error) {
    child.kill('SIGKILL')
    await exited
    throw error
  }
}

interface Facts extends Ports {
  child: ChildProcess
  exited: Promise<ServerExit>
  url: string
  pid: number
  version: string
  log: string
}

function running({ child, exited, monitor, ...facts }: Facts, stopTimeout: number): RunningServer {
  const end = async (signal: NodeJS.Signals): Promise<ServerExit> => {
    child.ref()
    child.kill(signal)
    const force = setTimeout(() => child.kill('SIGKILL'), stopTimeout)
    const exit = await exited
    clearTimeout(force)
    return exit
  }
  const stop = () => end('SIGTERM')
  return {
    ...facts,
    ...(monitor ? { monitor } : {}),
    exited,
    stop,
    kill: () => end('SIGKILL'),
    signal: (name) => void child.kill(name),
    [Symbol.asyncDispose]: async () => void (await stop()),
  }
}

const children = new Set<ChildProcess>()

/** Stops the server when its owner exits without stopping it, on systems where the kernel does not. Uses one listener for all servers. */
function endWithUs(child: ChildProcess): void {
  if (children.size === 0) process.on('exit', endAll)
  children.add(child)
  child.once('exit', () => {
    children.delete(child)
    if (children.size === 0) process.off('exit', endAll)
  })
}

function endAll(): void {
  for (const child of children) child.kill('SIGTERM')
}

/** Starts the server in a session of its own. On Linux the kernel ends it together with the thread that started it. */
function spawnServer(binary: string, config: string, log: string): ChildProcess {
  const output = openSync(log, 'a', 0o600)
  try {
    const setpriv = process.platform === 'linux' ? findSetpriv() : undefined
    const [command, args] = setpriv ? [setpriv, ['--pdeathsig', 'TERM', binary, '-c', config]] : [binary, ['-c', config]]
    return spawn(command, args as string[], { stdio: ['ignore', output, output], detached: true })
  } finally {
    closeSync(output)
  }
}

function findSetpriv(): string | undefined {
  for (const folder of ['/usr/bin', '/bin', ...(process.env.PATH ?? '').split(delimiter)]) {
    const path = join(folder, 'setpriv')
    try {
      accessSync(path, constants.X_OK)
      return path
    } catch {
      // Not in this folder.
    }
  }
  return undefined
}

function exitOf(child: ChildProcess): Promise<ServerExit> {
  return new Promise((settle) => {
    child.once('exit', (code, signal) => settle({ code, signal }))
    child.once('error', () => settle({ code: null, signal: null }))
  })
}

/** Stops a server whose owner no longer runs: two servers on one store would destroy it. */
async function endOrphan(left: Holder | undefined, timeout_ms: number): Promise<void> {
  if (!left || left.server === undefined) return
  const alive = () => isAlive(left.server, left.server_started)
  if (!alive()) return
  process.kill(left.server, 'SIGTERM')
  const deadline = Date.now() + timeout_ms
  while (alive()) {
    if (Date.now() > deadline) process.kill(left.server, 'SIGKILL')
    await new Promise((again) => setTimeout(again, 20))
  }
}

function reachable(host: string): string {
  return host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host
}

function sizeOf(file: string): number {
  try {
    return statSync(file).size
  } catch {
    return 0
  }
}
