import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Judgement } from '@passover/chaos'
import { checkStream } from '@passover/chaos'
import type { PassKey, PassOverPreferences } from '@passover/schemas'
import type { PassOverOptions } from '@passover/sdk'
import { type Said, startProcess, type TestProcess } from '../processes/processes.js'
import { World } from './dispatcher.js'

const ROLES = new URL('../../dist/support/roles/', import.meta.url)
const SHIFTED_CLOCK = new URL('../../dist/support/processes/shifted-clock.js', import.meta.url)
const AUDIT = new URL('../../../services/audit/dist/main.js', import.meta.url)

/** A process that must have started within this, on a machine that others use too. */
const READY_MS = 30_000

export interface InstallationOptions {
  dispatchers?: number
  audit?: boolean
  /** The whole system's policy; its lease is short here, so that lost workers are not waited for long. */
  defaults?: PassOverPreferences['defaults']
}

/** What an originator said of one pass. */
export interface Outcome {
  output?: { by: string; attempt: number; depth: number; ancestors: string[] }
  code?: string
  message?: string
  context?: Record<string, unknown>
}

/** Long enough for a machine that others use too: a worker that gets no processor for so long loses its work. */
export const LEASE_MS = 2_000
/** No test waits for this one: a process may take long to start. */
const TIMEOUT_MS = 120_000

/** A server, and dispatchers, audit, workers and originators as processes of their own. `world` plays everybody else by hand. */
export class Installation implements AsyncDisposable {
  readonly world: World
  /** The policy that its processes start with. */
  readonly document: PassOverPreferences
  readonly #directory: string
  readonly #env: Record<string, string>
  readonly #processes: TestProcess[] = []

  private constructor(world: World, directory: string, document: PassOverPreferences) {
    this.world = world
    this.document = document
    this.#directory = directory
    this.#env = {
      NATS_URL: world.nats.url,
      PASSOVER_POLICY: join(directory, 'policy.json'),
      PASSOVER_LOG_LEVEL: process.env.PASSOVER_LOG_LEVEL ?? 'silent',
    }
  }

  static async start(options: InstallationOptions = {}): Promise<Installation> {
    const directory = await mkdtemp(join(tmpdir(), 'passover-installation-'))
    const policy = { defaults: { lease_ms: LEASE_MS, timeout_ms: TIMEOUT_MS, ...options.defaults } }
    await writeFile(join(directory, 'policy.json'), JSON.stringify(policy))
    const made = new Installation(await World.start({ dispatchers: [] }), directory, policy)
    const dispatchers = Array.from({ length: options.dispatchers ?? 1 }, () => made.dispatcher())
    await Promise.all(options.audit === false ? dispatchers : [...dispatchers, made.audit()])
    return made
  }

  /** A dispatcher process; with a point it ends itself there. */
  async dispatcher(kill_at?: string, env: Record<string, string> = {}): Promise<TestProcess> {
    const started = this.#start('dispatcher', { ...(kill_at === undefined ? {} : { KILL_AT: kill_at }), ...env })
    await started.heard('ready', READY_MS)
    return started
  }

  async audit(env: Record<string, string> = {}): Promise<TestProcess> {
    const started = startProcess(AUDIT, { env: { ...this.#env, PASSOVER_LOG_LEVEL: 'info', ...env }, name: 'audit' })
    this.#processes.push(started)
    // It logs when it reads; there is nothing else that it says.
    const deadline = Date.now() + READY_MS
    while (!started.stderr.includes('audit service started')) {
      if (!started.running || Date.now() > deadline) throw new Error(`the audit did not start: ${started.stderr}`)
      await new Promise((again) => setTimeout(again, 20))
    }
    return started
  }

  /** A worker process of that agent, ready to take work. `env`: KILL_AT, STALL_AT, DRAIN_TIMEOUT_MS. */
  async worker(agent: string, name: string, env: Record<string, string> = {}): Promise<TestProcess> {
    const started = this.#start('worker', { PASSOVER_AGENT: agent, WORKER: name, ...env })
    await started.heard('ready', READY_MS)
    return started
  }

  /** An agent whose main knows nothing of tests, ready to take work. */
  async plainAgent(agent: string): Promise<TestProcess> {
    const started = this.#start('plain-agent', { PASSOVER_AGENT: agent })
    await started.heard('ready', READY_MS)
    return started
  }

  async originator(agent = 'alice', env: Record<string, string> = {}): Promise<OriginatorProcess> {
    const started = this.#start('originator', { PASSOVER_AGENT: agent, ...env })
    await started.heard('ready', READY_MS)
    return new OriginatorProcess(started, agent)
  }

  /** Publishes what it is told to `ask`: { passes, to }. `env`: IN_FLIGHT. */
  async requester(agent: string, env: Record<string, string> = {}): Promise<TestProcess> {
    const started = this.#start('requester', { PASSOVER_AGENT: agent, ...env })
    await started.heard('ready', READY_MS)
    return started
  }

  /** Registers an agent and makes its consumers, without anybody who works. */
  async register(agent: string, originates: 'always' | 'within_a_pass' = 'within_a_pass'): Promise<void> {
    await this.world.agentRecord(agent, { originates, subagent: true })
    await this.world.bus.ensureAgent(agent, { subagent: true, max_attempts: 3, lease_ms: LEASE_MS })
  }

  /** The stream as the independent checker judges it. An end may be late where others use this machine too; that it is seldom so is measured elsewhere. */
  judge(): Promise<Judgement> {
    return checkStream(this.world.nats.servers, { bound_ms: 20_000 })
  }

  #start(role: string, env: Record<string, string>): TestProcess {
    const started = startProcess(new URL(`${role}.js`, ROLES), { env: { ...this.#env, ...env }, name: `${role} ${env.WORKER ?? ''}` })
    this.#processes.push(started)
    return started
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#processes.map((one) => one[Symbol.asyncDispose]()))
    await this.world[Symbol.asyncDispose]()
    await rm(this.#directory, { recursive: true, force: true })
  }
}

/** The environment of a process whose wall clock is wrong by so much. */
export function wrongClock(ms: number): Record<string, string> {
  return { NODE_OPTIONS: `--import ${SHIFTED_CLOCK.href}`, SHIFT_MS: String(ms) }
}

let tags = 0

/** A process that passes over when it is told to. */
export class OriginatorProcess {
  readonly process: TestProcess
  readonly name: string

  constructor(started: TestProcess, name: string) {
    this.process = started
    this.name = name
  }

  /** Begins a pass; gives its key when the stream has it, and what came of it. */
  pass(subagent: string, reason: string, more: Partial<PassOverOptions> = {}): Asked {
    return this.#ask({ options: { subagent, reason, work_context: { objective: 'do it' }, ...more } })
  }

  /** The same, so many times at once. */
  async passes(times: number, options: PassOverOptions, deadline_ms = 60_000): Promise<Outcome[]> {
    const tag = ++tags
    this.process.tell({ do: 'pass', tag, options, times })
    const found = () => this.process.said('outcome').filter((one) => one.tag === tag)
    await this.#until(() => found().length === times, deadline_ms)
    return found().map(read)
  }

  /** Asks again for an id, without sending anything. */
  handle(id: string, subagent: string): Asked {
    return this.#ask({ do: 'handle', id, subagent })
  }

  #ask(told: { options?: PassOverOptions; do?: string; id?: string; subagent?: string }): Asked {
    const tag = ++tags
    this.process.tell({ do: 'pass', tag, ...told })
    const of = (event: string) => this.process.said(event).find((one) => one.tag === tag)
    return {
      key: async () => {
        const id = await this.#until(() => of('stored')?.id as string | undefined)
        return { originator: this.name, subagent: told.options?.subagent ?? '', id }
      },
      outcome: async (deadline_ms = 60_000) => read(await this.#until(() => of('outcome'), deadline_ms)),
      settled: () => of('outcome') !== undefined,
    }
  }

  async #until<T>(look: () => T | undefined | false, deadline_ms = 60_000): Promise<T> {
    const deadline = Date.now() + deadline_ms
    for (;;) {
      const found = look()
      if (found) return found
      if (Date.now() > deadline || !this.process.running) throw new Error(`${this.name} did not say so: ${this.process.stderr}`)
      await new Promise((again) => setTimeout(again, 5))
    }
  }
}

export interface Asked {
  key(): Promise<PassKey>
  outcome(deadline_ms?: number): Promise<Outcome>
  settled(): boolean
}

function read({ output, code, message, context }: Said): Outcome {
  if (code !== undefined) return { code: String(code), message: String(message), context: context as Record<string, unknown> }
  return { output: JSON.parse(String(output)) as NonNullable<Outcome['output']> }
}

/** Runs that workers told of, of one pass: `attempt` numbers in the order in which they were told. */
export function runsOf(id: string, ...workers: TestProcess[]): number[] {
  return workers.flatMap((worker) => worker.said('run').filter((one) => one.id === id)).map((one) => Number(one.attempt))
}
