import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import type { Context } from '../connection/context.js'
import { healthPortFrom } from '../connection/health-port.js'
import { duration } from '../terminal/duration.js'
import { type StopSignals, stopSignals } from '../terminal/stop-signals.js'
import { count } from '../terminal/text.js'
import { requireProgram, type WorkerRequest } from './worker.js'

/** Milliseconds before a dead replica is restarted. The pause doubles with each death, and resets once the replica has lasted `well_after`. */
const RESTART_MS = { first: 500, most: 30_000, well_after: 60_000 }

/** Counts of a worker's --json document that are added up. */
type Sums = Record<'passes' | 'completed' | 'failed' | 'discarded', number> & { sandbox?: unknown }

/**
 * Runs workers under one parent until Ctrl-C. A replica that dies is restarted. If no replica has worked yet, its error (no server, for example) ends
 * the command with the same exit code. On SIGTERM, or when the parent is killed, all replicas drain.
 */
export async function runReplicas(context: Context, request: WorkerRequest, replicas: number): Promise<number> {
  const { terminal } = context
  requireProgram(context, request)
  const group = new Replicas(context, request, replicas)
  using signals = stopSignals(() => group.signal('SIGTERM'))
  group.start()
  const failed = await group.failedOr(signals)
  if (failed === undefined) terminal.note(`Stopping ${count(replicas, 'worker')}. Press Ctrl-C again to stop immediately.`)
  await group.stop()
  if (failed !== undefined) return failed
  if (terminal.mode === 'json') terminal.show({ agent: request.agent, replicas, restarts: group.restarts, ...group.sums }, () => '')
  else terminal.note(`Stopped ${count(replicas, 'worker')}.`)
  return 0
}

class Replicas {
  restarts = 0
  readonly sums: Sums = { passes: 0, completed: 0, failed: 0, discarded: 0 }
  readonly #context: Context
  readonly #request: WorkerRequest
  readonly #all: Replica[]
  readonly #failed: Promise<number>
  #fail: (code: number) => void = () => {}
  #isStopping = false
  /** True once any replica has worked. */
  #hasWorked = false
  #hasError = false
  /** True once a replica was started that prints the server and the sandbox. */
  #isAnnounced = false

  constructor(context: Context, request: WorkerRequest, replicas: number) {
    this.#context = context
    this.#request = request
    this.#failed = new Promise((resolve) => {
      this.#fail = resolve
    })
    this.#all = Array.from({ length: replicas }, (_, index) => new Replica(index + 1))
  }

  start(): void {
    for (const replica of this.#all) this.#spawn(replica)
  }

  /** Settles with an exit code if no replica can work, or with `undefined` at the first signal. */
  failedOr({ first }: StopSignals): Promise<number | undefined> {
    return Promise.race([this.#failed, first.then(() => undefined)])
  }

  signal(name: NodeJS.Signals): void {
    for (const { child } of this.#all) child?.kill(name)
  }

  /** Stops all replicas. Settles when all have ended. */
  async stop(): Promise<void> {
    this.#isStopping = true
    for (const replica of this.#all) clearTimeout(replica.timer)
    this.signal('SIGTERM')
    await Promise.all(this.#all.map(({ ended }) => ended))
  }

  #spawn(replica: Replica): void {
    const { directory } = this.#context
    const [, script = ''] = process.argv
    const args = [...process.execArgv, script, ...workArguments(this.#context, { ...this.#request, brief: this.#isAnnounced })]
    this.#isAnnounced = true
    // A separate process group, so that Ctrl-C reaches only the parent, which forwards one signal. The IPC channel closes when the parent ends.
    const child = spawn(process.execPath, args, {
      cwd: directory,
      env: this.#environment(replica.number),
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      detached: true,
    })
    const began = performance.now()
    let works = false
    child.once('message', () => {
      works = true
      this.#hasWorked = true
    })
    replica.runs(child)
    this.#read(child, replica.number)
    child.once('close', (code, signal) => {
      replica.hasEnded()
      if (this.#isStopping) return
      if (!works && !this.#hasWorked) return this.#fail(code || 1)
      if (performance.now() - began > RESTART_MS.well_after) replica.deaths = 0
      const pause = Math.min(RESTART_MS.most, RESTART_MS.first * 2 ** replica.deaths++)
      this.restarts += 1
      this.#tell(replica.number, `ended (${signal ?? `exit code ${code}`}); restarting it in ${duration(pause)}`)
      replica.timer = setTimeout(() => this.#spawn(replica), pause)
    })
    child.once('error', (error) => this.#tell(replica.number, error.message))
  }

  /** Gives each replica its own health port: the first one the given port, the second one the next. */
  #environment(number: number): NodeJS.ProcessEnv {
    const { env } = this.#context
    const port = healthPortFrom(env)
    return port ? { ...env, PASSOVER_HEALTH_PORT: String(port + number - 1) } : env
  }

  #read({ stdout, stderr }: ChildProcess, number: number): void {
    if (stderr) createInterface(stderr).on('line', (line) => this.#tell(number, line))
    if (!stdout) return
    const { mode } = this.#context.terminal
    if (mode !== 'json') createInterface(stdout).on('line', (line) => this.#result(number, line))
    else {
      let text = ''
      stdout.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk
      })
      stdout.once('end', () => this.#result(number, text))
    }
  }

  /** Handles a replica's stdout: events with --jsonl, or its final sums or an error with --json. */
  #result(replica: number, text: string): void {
    const { terminal } = this.#context
    const document = documentIn(text)
    if (!document) return
    if (terminal.mode === 'jsonl') terminal.stream({ replica, ...document }, () => undefined)
    else if ('error' in document) {
      // Shows only the first error, because the others would repeat it.
      if (!this.#hasWorked && !this.#hasError) terminal.show(document, () => '')
      this.#hasError = true
    } else {
      for (const name of ['passes', 'completed', 'failed', 'discarded'] as const) this.sums[name] += Number(document[name] ?? 0)
      this.sums.sandbox ??= document.sandbox
    }
  }

  /** Forwards a line of a replica, which has already escaped it and adapted its commands. */
  #tell(number: number, line: string): void {
    const { terminal } = this.#context
    terminal.exhibit(`${terminal.noteColors.dim(`${number} |`)} ${line}`)
  }
}

/** One worker and its restarts. */
class Replica {
  child: ChildProcess | undefined
  timer: NodeJS.Timeout | undefined
  ended: Promise<void> = Promise.resolve()
  /** Number of deaths since it last worked for `well_after`. */
  deaths = 0
  hasEnded: () => void = () => {}

  constructor(readonly number: number) {}

  runs(child: ChildProcess): void {
    this.child = child
    this.ended = new Promise((resolve) => {
      this.hasEnded = resolve
    })
  }
}

/** Builds the command line of one worker. */
function workArguments({ flags, terminal }: Context, request: WorkerRequest): string[] {
  const { agent, command, concurrency, kill_after_ms, writable, brief } = request
  return [
    ...(terminal.mode === 'human' ? [] : [`--${terminal.mode}`]),
    ...(flags.server === undefined ? [] : ['--server', flags.server]),
    ...(flags.as === undefined ? [] : ['--as', flags.as]),
    'work',
    agent,
    ...['--concurrency', String(concurrency), '--kill-after', `${kill_after_ms}ms`],
    ...(brief ? ['--brief'] : []),
    ...writable.flatMap((directory) => ['--writable', directory]),
    '--',
    ...command,
  ]
}

function documentIn(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}
