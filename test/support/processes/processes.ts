import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { residentBytes, stopProcess } from './proc.js'
import { Tail } from './tail.js'
import { until } from './until.js'

export interface ProcessOptions {
  args?: string[]
  env?: Record<string, string | undefined>
  cwd?: string
  /** Flags of node itself. */
  node?: string[]
  /** `lowest`: it runs where no other process wants to. */
  priority?: 'lowest' | undefined
  /** Named in errors; default the script's file name. */
  name?: string
}

export interface ProcessExit {
  code: number | null
  signal: NodeJS.Signals | null
}

/** What a process says by IPC: an event's name and whatever belongs to it. */
export interface Said {
  event: string
  [field: string]: unknown
}

export interface RssWatch {
  /** Highest so far, bytes; 0 before the first measure. */
  readonly highest: number
  stop(): void
}

/** A node process of its own, that can be killed and frozen. Disposing of it is kill -9. */
export interface TestProcess extends AsyncDisposable {
  readonly pid: number
  readonly exited: Promise<ProcessExit>
  readonly running: boolean
  /** Everything printed so far (the last MiB of each). */
  readonly stdout: string
  readonly stderr: string
  /** Whole lines of stdout so far. */
  lines(): string[]
  /** The first line of stdout that fits, printed already or yet to come. Fails with what it printed when it ends or time is up. */
  line(pattern: RegExp, deadline_ms?: number): Promise<string>
  /** All events said so far, in order. */
  readonly events: readonly Said[]
  /** All events of that name said so far. */
  said(event: string): Said[]
  /** The next event of that name not yet taken by a call of this. */
  heard(event: string, deadline_ms?: number): Promise<Said>
  /** Sends a message by IPC. */
  tell(message: object): void
  /** Writes to its standard input. */
  type(text: string): void
  /** kill -9 by default; waits for its end. */
  kill(signal?: NodeJS.Signals): Promise<ProcessExit>
  /** Sends a signal and does not wait. */
  signal(name: NodeJS.Signals): void
  /** SIGSTOP, and waits until it stands still. */
  freeze(): Promise<void>
  /** SIGCONT. */
  thaw(): void
  /** Resident memory now, bytes. */
  rss(): Promise<number>
  /** Measures resident memory every so often until it is stopped or the process ends. */
  watchRss(every_ms?: number): RssWatch
}

const KEPT = 1 << 20
const DEADLINE_MS = 60_000
const IDLE = ['chrt', '--idle', '0'] as const

/** Runs a script (a path, or a file URL) in a node of its own, with a channel for messages. */
export function startProcess(script: string | URL, options: ProcessOptions = {}): TestProcess {
  const path = script instanceof URL ? fileURLToPath(script) : script
  return new Child([...(options.node ?? []), path, ...(options.args ?? [])], { name: path.split('/').at(-1) ?? path, ...options })
}

/**
 * What a command is run through so that all its threads have the lowest priority: node's setPriority() is of the first one alone on Linux, which
 * leaves out the collector's. Beside a thread of SCHED_IDLE another one need not wait for the end of its time slice.
 */
function throughLowest(): string[] {
  const [command, ...args] = IDLE
  return spawnSync(command, [...args, 'true']).status === 0 ? [...IDLE] : ['nice', '-n', '19']
}

class Child implements TestProcess {
  readonly exited: Promise<ProcessExit>
  readonly #child: ChildProcess
  readonly #name: string
  readonly events: Said[] = []
  readonly #said = new Map<string, Said[]>()
  readonly #taken = new Map<string, number>()
  readonly #stdout = new Tail(KEPT)
  readonly #stderr = new Tail(KEPT)
  #exit: ProcessExit | undefined

  constructor(args: string[], { name = '', env, cwd, priority }: ProcessOptions) {
    this.#name = name
    const [command = process.execPath, ...before] = priority === 'lowest' ? [...throughLowest(), process.execPath] : []
    this.#child = spawn(command, [...before, ...args], {
      stdio: ['pipe', 'pipe', 'pipe', 'ipc'],
      serialization: 'advanced',
      env: { ...process.env, NODE_ENV: 'test', ...env },
      ...(cwd ? { cwd } : {}),
    })
    this.#child.stdout?.setEncoding('utf8').on('data', (text: string) => this.#stdout.add(text))
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => this.#stderr.add(text))
    this.#child.on('message', (message) => {
      const said = message as Said
      this.events.push(said)
      const before = this.#said.get(said.event)
      if (before) before.push(said)
      else this.#said.set(said.event, [said])
    })
    // A message to a process that just ended is no failure of the test.
    this.#child.on('error', () => {})
    this.#child.stdin?.on('error', () => {})
    this.exited = new Promise((resolve) => {
      // `close` comes after its output was read, `exit` may not.
      this.#child.once('close', (code, signal) => {
        this.#exit = { code, signal }
        resolve(this.#exit)
      })
    })
  }

  get pid(): number {
    const { pid } = this.#child
    if (pid === undefined) throw new Error(`${this.#name} was not started`)
    return pid
  }
  get running(): boolean {
    return this.#exit === undefined
  }
  get stdout(): string {
    return this.#stdout.text
  }
  get stderr(): string {
    return this.#stderr.text
  }

  lines(): string[] {
    return this.#stdout.text.split('\n').slice(0, -1)
  }

  line(pattern: RegExp, deadline_ms = DEADLINE_MS): Promise<string> {
    return this.#await(`prints ${pattern}`, deadline_ms, () => this.lines().find((line) => pattern.test(line)))
  }

  said(event: string): Said[] {
    return this.#said.get(event) ?? []
  }

  async heard(event: string, deadline_ms = DEADLINE_MS): Promise<Said> {
    const nth = this.#taken.get(event) ?? 0
    this.#taken.set(event, nth + 1)
    return this.#await(`says ${event}`, deadline_ms, () => this.said(event)[nth])
  }

  tell(message: object): void {
    if (this.#child.connected) this.#child.send(message)
  }

  type(text: string): void {
    this.#child.stdin?.write(text)
  }

  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<ProcessExit> {
    this.#child.kill(signal)
    return this.exited
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name)
  }

  freeze(): Promise<void> {
    return stopProcess(this.pid)
  }

  thaw(): void {
    this.#child.kill('SIGCONT')
  }

  rss(): Promise<number> {
    return residentBytes(this.pid)
  }

  watchRss(every_ms = 200): RssWatch {
    let highest = 0
    const look = () => {
      this.rss().then(
        (bytes) => {
          highest = Math.max(highest, bytes)
        },
        () => {},
      )
    }
    look()
    const timer = setInterval(look, every_ms)
    void this.exited.then(() => clearInterval(timer))
    return {
      get highest() {
        return highest
      },
      stop: () => clearInterval(timer),
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.running) await this.kill()
  }

  async #await<T>(what: string, deadline_ms: number, look: () => T | undefined): Promise<T> {
    let gone = false
    const found = await until(
      () => {
        const answer = look()
        // Looked after its end once more: all it said has been read by then.
        if (answer === undefined && this.#exit) gone = true
        return answer !== undefined ? { answer } : gone
      },
      { what: `${this.#name} ${what}`, deadline_ms, every_ms: 5 },
    ).catch((error: Error) => {
      throw new Error(`${error.message}\n${this.#ending()}`)
    })
    if (typeof found === 'object') return found.answer as T
    throw new Error(`${this.#name} ended before it ${what}\n${this.#ending()}`)
  }

  #ending(): string {
    const exit = this.#exit ? `exit ${this.#exit.code ?? this.#exit.signal}` : 'still running'
    return [exit, this.#stdout.text.slice(-2_000), this.#stderr.text.slice(-4_000)].filter(Boolean).join('\n')
  }
}
