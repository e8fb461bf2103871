import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import type { Context } from '../connection/context.js'
import { healthPortFrom } from '../connection/health-port.js'
import { duration } from '../terminal/duration.js'
import { type StopSignals, stopSignals } from '../terminal/stop-signals.js'
import { count } from '../terminal/text.js'
import { requireProgram, type WorkerRequest } from './worker.js'

/** Pause before a replica that died is started again. It doubles each time, and starts over once the replica has lasted `well_after`. */
const RESTART_MS = { first: 500, most: 30_000, well_after: 60_000 }

/** The part of a worker's --json document that is added up. */
type Sums = Record<'passes' | 'completed' | 'failed' | 'discarded', number> & { sandbox?: unknown }

/**
 * Runs workers under one parent until Ctrl-C. A replica that dies is started again. If none has worked yet, its error (no server, for example) ends
 * the command with the same exit code. At SIGTERM all replicas drain; they drain as well when the parent is killed.
 */
export async function runReplicas(context: Context, request: WorkerRequest, replicas: number): Promise<number> {
  const { terminal } = context
  requireProgram(context, request)
  const group = new Replicas(context, request, replicas)
  using signals = stopSignals(() => group.signal('SIGTERM'))
  group.start()
  const failed = await group.failedOr(signals)
  if (failed === undefined) terminal.note(`Stopping ${count(replicas, 'worker')}. Ctrl-C again stops at once.`)
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
  /** One of them has worked. */
  #hasWorked = false
  #hasError = false

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

  /** Settles with an exit code if no replica can work, with undefined at the first signal. */
  failedOr({ first }: StopSignals): Promise<number | undefined> {
    return Promise.race([this.#failed, first.then(() => undefined)])
  }

  signal(name: NodeJS.Signals): void {
    for (const { child } of this.#all) child?.kill(name)
  }

  /** Settles when all have ended. */
  async stop(): Promise<void> {
    this.#isStopping = true
    for (const replica of this.#all) clearTimeout(replica.timer)
    this.signal('SIGTERM')
    await Promise.all(this.#all.map(({ ended }) => ended))
  }

  #spawn(replica: Replica): void {
    const { directory } = this.#context
    const [, script = ''] = process.argv
    const args = [...process.execArgv, script, ...workArguments(this.#context, this.#request)]
    // A process group of its own: a terminal's Ctrl-C reaches the parent alone, which passes on one signal. The IPC channel closes when the parent ends.
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
      this.#tell(replica.number, `ended (${signal ?? `exit code ${code}`}); starting it again in ${duration(pause)}`)
      replica.timer = setTimeout(() => this.#spawn(replica), pause)
    })
    child.once('error', (error) => this.#tell(replica.number, error.message))
  }

  /** Each replica serves its health at a port of its own: the first one at the given port, the second one at the next. */
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

  /** What a replica prints on stdout: with --jsonl what happens, with --json its sums at the end, or an error. */
  #result(replica: number, text: string): void {
    const { terminal } = this.#context
    const document = documentIn(text)
    if (!document) return
    if (terminal.mode === 'jsonl') terminal.stream({ replica, ...document }, () => undefined)
    else if ('error' in document) {
      // The first says why none can work; the others would say the same.
      if (!this.#hasWorked && !this.#hasError) terminal.show(document, () => '')
      this.#hasError = true
    } else {
      for (const name of ['passes', 'completed', 'failed', 'discarded'] as const) this.sums[name] += Number(document[name] ?? 0)
      this.sums.sandbox ??= document.sandbox
    }
  }

  /** The replica has escaped what it prints and has adapted its commands. */
  #tell(number: number, line: string): void {
    const { terminal } = this.#context
    terminal.exhibit(`${terminal.noteColors.dim(`${number} |`)} ${line}`)
  }
}

/** One worker, across its restarts. */
class Replica {
  child: ChildProcess | undefined
  timer: NodeJS.Timeout | undefined
  ended: Promise<void> = Promise.resolve()
  /** How often it died since it last worked for `well_after`. */
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

/** The command line of one worker. */
function workArguments({ flags, terminal }: Context, request: WorkerRequest): string[] {
  const { agent, command, concurrency, kill_after_ms, writable } = request
  return [
    ...(terminal.mode === 'human' ? [] : [`--${terminal.mode}`]),
    ...(flags.server === undefined ? [] : ['--server', flags.server]),
    ...(flags.as === undefined ? [] : ['--as', flags.as]),
    'work',
    agent,
    ...['--concurrency', String(concurrency), '--kill-after', `${kill_after_ms}ms`],
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
