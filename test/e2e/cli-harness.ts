import { type ChildProcess, spawn } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { AnsweredPass, PassRow, WorkOutput } from '@passover/schemas'
import { shapeFault } from '../../packages/cli/src/render/json-schemas.js'
import { until as untilTruthy } from '../support/until.js'

export const ROOT = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '')
export const BIN = join(ROOT, 'packages', 'cli', 'bin', 'passover.js')

export interface Ended {
  code: number | null
  signal: NodeJS.Signals | null
  stdout: string
  stderr: string
  ms: number
}

export interface SpawnOptions {
  cwd: string
  input?: string | Buffer
  env?: NodeJS.ProcessEnv
}

const running = new Set<ChildProcess>()
// A test that timed out never disposes of its processes.
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})

/** A process of a test, whose output can be awaited. It never outlives its test: dispose it. */
export class Spawned implements AsyncDisposable {
  stdout = ''
  stderr = ''
  readonly ended: Promise<Ended>
  readonly #listeners = new Set<() => void>()

  constructor(readonly child: ChildProcess) {
    const began = performance.now()
    running.add(child)
    child.once('exit', () => running.delete(child))
    child.stdout?.setEncoding('utf8').on('data', (text: string) => this.#add('stdout', text))
    child.stderr?.setEncoding('utf8').on('data', (text: string) => this.#add('stderr', text))
    this.ended = new Promise((resolve, reject) => {
      child.once('error', reject)
      child.once('close', (code, signal) => {
        resolve({ code, signal, stdout: this.stdout, stderr: this.stderr, ms: performance.now() - began })
        for (const listener of this.#listeners) listener()
      })
    })
  }

  /** Settles when the text has been printed; throws when it ends or time is up before. */
  async printed(text: string | RegExp, where: 'stdout' | 'stderr' = 'stdout', ms = 60_000): Promise<string> {
    const deadline = Date.now() + ms
    for (;;) {
      if (typeof text === 'string' ? this[where].includes(text) : text.test(this[where])) return this[where]
      const left = deadline - Date.now()
      if (left <= 0 || this.child.exitCode !== null || this.child.signalCode !== null)
        throw new Error(`never printed ${text}\nstdout: ${this.stdout}\nstderr: ${this.stderr}`)
      await new Promise<void>((resolve) => {
        const timer = setTimeout(done, Math.min(left, 1_000))
        const listeners = this.#listeners
        function done() {
          clearTimeout(timer)
          listeners.delete(done)
          resolve()
        }
        listeners.add(done)
      })
    }
  }

  kill(signal: NodeJS.Signals): void {
    this.child.kill(signal)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.child.exitCode === null && this.child.signalCode === null) {
      this.child.kill('SIGTERM')
      const force = setTimeout(() => this.child.kill('SIGKILL'), 15_000)
      await this.ended.catch(() => undefined)
      clearTimeout(force)
    }
  }

  #add(where: 'stdout' | 'stderr', text: string): void {
    this[where] += text
    for (const listener of this.#listeners) listener()
  }
}

/** What this process was given, without what names a server or a person of the machine's. */
export function cleanEnvironment(extra: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv {
  const {
    NATS_URL,
    NATS_USER,
    NATS_PASSWORD,
    NATS_CREDS,
    NATS_TOKEN,
    PASSOVER_SERVER,
    PASSOVER_AS,
    PASSOVER_PARENT,
    PASSOVER_AGENT,
    npm_command,
    PASSOVER_CHILD_COVERAGE,
    ...env
  } = process.env
  // V8 writes there what ran, when the process ends.
  const coverage = PASSOVER_CHILD_COVERAGE ? { NODE_V8_COVERAGE: PASSOVER_CHILD_COVERAGE } : {}
  return { ...env, ...coverage, ...extra }
}

/** Starts a command of the built CLI. */
export function cli(args: string[], options: SpawnOptions): Spawned {
  const child = spawn(process.execPath, [BIN, ...args], {
    cwd: options.cwd,
    env: cleanEnvironment(options.env),
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  child.stdin?.on('error', () => undefined)
  child.stdin?.end(options.input ?? '')
  return new Spawned(child)
}

const SCRIPT = '/usr/bin/script'

/** Whether commands can be tested at a terminal: util-linux `script` makes one; it says so where there is none. */
export function hasTerminal(): boolean {
  if (existsSync(SCRIPT)) return true
  process.stderr.write(`Left out: what is asked at a terminal (no ${SCRIPT}, of util-linux, to make one).\n`)
  return false
}

/** A command of the built CLI at a terminal of its own. */
export function atTerminal(args: string[], cwd: string, more: NodeJS.ProcessEnv = {}, columns = 140): Spawned {
  const { CI: _ci, NO_COLOR: _plain, ...env } = cleanEnvironment()
  const command = `stty cols ${columns} rows 50; exec '${process.execPath}' '${BIN}' ${args.join(' ')}`
  const options = { cwd, env: { ...env, TERM: 'xterm', ...more } }
  return new Spawned(spawn(SCRIPT, ['-qfec', command, '/dev/null'], { ...options, stdio: ['pipe', 'pipe', 'pipe'] }))
}

/** Runs a command of the built CLI to its end. */
export function run(args: string[], options: SpawnOptions): Promise<Ended> {
  return cli(args, options).ended
}

/** Runs a command with --json; fails unless stdout is exactly one JSON document of the shape that is documented. */
export async function json<T = Record<string, unknown>>(
  args: string[],
  options: SpawnOptions,
): Promise<{ code: number | null; document: T; stderr: string }> {
  const { code, stdout, stderr } = await run([...args, '--json'], options)
  const document = JSON.parse(stdout) as T
  const fault = shapeFault(args, document)
  if (fault) throw new Error(`not as docs/reference/json-output.md says: ${fault}`)
  return { code, document, stderr }
}

/** A folder that is removed at the end. */
export class Folder implements Disposable {
  readonly path: string

  constructor() {
    this.path = mkdtempSync(join(tmpdir(), 'passover-e2e-'))
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true, maxRetries: 5 })
  }
}

export interface Project extends AsyncDisposable {
  readonly cwd: string
  readonly up: Spawned
}

/** A project with `passover up` running. */
export async function openProject(args: string[] = [], env: NodeJS.ProcessEnv = {}): Promise<Project> {
  const folder = new Folder()
  const up = cli(['up', ...args], { cwd: folder.path, env })
  await up.printed('is up', 'stdout', 120_000)
  return {
    cwd: folder.path,
    up,
    async [Symbol.asyncDispose]() {
      await up[Symbol.asyncDispose]()
      folder[Symbol.dispose]()
    },
  }
}

export function serverFile(cwd: string): { url: string; user: string; password: string; pid?: number; http?: string } {
  return JSON.parse(readFileSync(join(cwd, '.passover', 'server.json'), 'utf8'))
}

/** Whether a process is there. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return !readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ')
  } catch {
    return false
  }
}

/**
 * Finds a process of a command and returns its id on the host, undefined if it does not run.
 *
 * @param pid The id that the command sees, which may be that of a PID namespace.
 * @param mark Text that the environment of the process contains.
 */
export function findProcess(pid: number, mark: string): number | undefined {
  const found = readdirSync('/proc').find((name) => {
    try {
      const status = readFileSync(`/proc/${name}/status`, 'utf8')
      const inside = /^NSpid:.*?(\d+)$/m.exec(status)?.[1]
      return Number(inside) === pid && !/^State:\s+Z/m.test(status) && readFileSync(`/proc/${name}/environ`, 'utf8').includes(mark)
    } catch {
      return false
    }
  })
  return found === undefined ? undefined : Number(found)
}

export function isRunning(pid: number, mark: string): boolean {
  return findProcess(pid, mark) !== undefined
}

/** A PATH whose tools for sandboxes fail, as on a machine that allows no namespaces. */
export function pathWithout(tools: string[], folder: string): string {
  const bin = join(folder, `without-${tools.join('-')}`)
  mkdirSync(bin, { recursive: true })
  for (const tool of tools) {
    writeFileSync(join(bin, tool), '#!/bin/sh\nexit 1\n')
    chmodSync(join(bin, tool), 0o755)
  }
  return `${bin}:${process.env.PATH}`
}

/** The same as `until` of the support, with the time that commands need. */
export async function until(what: string, holds: () => boolean | Promise<boolean>, ms = 60_000): Promise<void> {
  await untilTruthy(holds, { what, deadline_ms: ms, every_ms: 50 })
}

/** Says the objective, and each file with its content; "sleep" never ends by itself. For `node -e`. */
export const ECHO = `let text=''; process.stdin.setEncoding('utf8').on('data', (chunk) => text += chunk).on('end', () => {
  const request = JSON.parse(text)
  if (request.work_context.objective === 'sleep') return setInterval(() => {}, 1000)
  const files = request.work_context.files.map((file) => file.path + '=' + file.content).join(',')
  process.stdout.write(request.work_context.objective + (files ? ' ' + files : '') + '\\n')
})`

/** What `show --json` prints. */
export type Shown = PassRow & {
  timeline: { kind: string; by: string }[]
  output?: WorkOutput
  error?: { code: string; message: string }
  decisions: AnsweredPass['decisions']
}

/** A pass that is there. */
export async function show(id: string, cwd: string): Promise<Shown> {
  const { code, document } = await json<Shown>(['show', id], { cwd })
  if (code !== 0) throw new Error(`show ${id} exited ${code}: ${JSON.stringify(document)}`)
  return document
}
