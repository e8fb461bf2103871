import { type ChildProcess, spawn } from 'node:child_process'
import { createWriteStream, type WriteStream } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { waitUntil } from '../wait-for.js'

export type Role = 'service' | 'worker' | 'originator' | 'person'

/** Folder of the compiled scripts, also when this file runs from its source. */
const ROLES = new URL('../../dist/roles/', import.meta.url)
const READY_TIMEOUT_MS = 120_000

export interface ChaosProcessOptions {
  name: string
  kind: string
  role: Role
  /** Options of the role, passed as JSON. */
  told: object
  /** Variables added to the environment of this process. */
  env: Record<string, string>
  /** Wraps a command so that it runs in the network of this process's party. */
  launch: (command: readonly string[]) => readonly string[]
  /** File that receives its output. */
  log: string
  /** Called if the process exits by itself, which is always an error. */
  onCrash: (what: string) => void
}

/** A process that can be killed and replaced by a new one under the same name. */
export class ChaosProcess implements AsyncDisposable {
  readonly name: string
  readonly kind: string
  /** Times in milliseconds at which it was killed. */
  readonly deaths: number[] = []
  readonly #options: ChaosProcessOptions
  readonly #log: WriteStream
  readonly #said = new Set<string>()
  #child: ChildProcess
  #lives = 0
  #ended = false
  #wanted = true
  #frozen = false
  #resources: { timers: number } | undefined

  constructor(options: ChaosProcessOptions) {
    this.name = options.name
    this.kind = options.kind
    this.#options = options
    this.#log = createWriteStream(options.log, { flags: 'a' })
    this.#child = this.#begin()
  }

  get pid(): number {
    return this.#child.pid ?? 0
  }
  get frozen(): boolean {
    return this.#frozen
  }
  /** The resource usage that it last reported in this life. */
  get resources(): { timers: number } | undefined {
    return this.#resources
  }
  /** Returns true if it has reported this event in this life. */
  said(event: string): boolean {
    return this.#said.has(event)
  }

  #begin(): ChildProcess {
    const { role, told, env, launch } = this.#options
    const script = fileURLToPath(new URL(`${role}.js`, ROLES))
    const life = this.#lives
    const [command = '', ...args] = launch([process.execPath, script, JSON.stringify({ ...told, life })])
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe', 'ipc'], env: { ...process.env, ...env } })
    this.#lives += 1
    this.#ended = false
    this.#said.clear()
    this.#resources = undefined
    child.on('message', (message) => {
      const { event, timers } = message as { event?: string; timers?: number }
      if (child !== this.#child) return
      if (event) this.#said.add(event)
      if (timers !== undefined) this.#resources = { timers }
    })
    child.stdout?.pipe(this.#log, { end: false })
    child.stderr?.pipe(this.#log, { end: false })
    child.on('error', () => undefined)
    child.once('exit', (code, signal) => {
      if (child !== this.#child) return
      this.#ended = true
      if (this.#wanted) this.#options.onCrash(`${this.name} ended by itself (${signal ?? `exit ${code}`})`)
    })
    return child
  }

  /** Waits until the process has reported that it is ready in this life. Returns false if it exited or time is up. */
  ready(deadline_ms = READY_TIMEOUT_MS): Promise<boolean> {
    return this.hears('ready', deadline_ms)
  }

  hears(event: string, deadline_ms: number): Promise<boolean> {
    return waitUntil(async () => this.said(event) || this.#ended, { deadline_ms, every_ms: 20 }).then(() => this.said(event))
  }

  tell(message: object): void {
    if (this.#child.connected) this.#child.send(message, () => undefined)
  }

  /** Kills the process with SIGKILL and starts a new one in its place at once. */
  async replace(): Promise<void> {
    this.#wanted = false
    await this.#kill()
    this.#wanted = true
    this.#child = this.#begin()
  }

  freeze(): void {
    this.#frozen = true
    this.#child.kill('SIGSTOP')
  }
  thaw(): void {
    this.#frozen = false
    this.#child.kill('SIGCONT')
  }

  async #kill(): Promise<void> {
    this.#frozen = false
    if (this.#ended) return
    const gone = new Promise((exit) => this.#child.once('exit', exit))
    this.#child.kill('SIGKILL')
    await gone
    this.deaths.push(Date.now())
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#wanted = false
    await this.#kill()
    this.#log.end()
  }
}
