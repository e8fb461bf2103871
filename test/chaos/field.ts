import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Bus, openBus } from '@passover/bus'
import { LOAD_AGENTS } from '@passover/chaos'
import { untilTaken } from '../support/dispatcher/durable-returns.js'
import { type RssWatch, startProcess, type TestProcess } from '../support/processes/processes.js'
import { until } from '../support/processes/until.js'
import { type NatsFixture, natsFixture } from '../support/servers/nats.js'

/** Compiled, from wherever this file is run. */
const ROLES = new URL(import.meta.url.includes('/dist/') ? '../support/roles/load/' : '../dist/support/roles/load/', import.meta.url)
const START_MS = 60_000

export interface FieldOptions {
  nodes?: 1 | 3
  dispatchers: number
  workers: number
  /** Subagents that each worker process works as. */
  agents?: readonly string[]
  concurrency?: number
  /** Write down every run of a handler. */
  begun?: boolean
  /** Limit of each process's heap: what exceeds it crashes. */
  heap_mib?: number
}

/** A process that is started again whenever somebody killed it. */
export class Player implements AsyncDisposable {
  readonly name: string
  readonly #start: () => TestProcess
  readonly #onCrash: (what: string) => void
  #process: TestProcess
  #frozen = false
  #peak = 0
  #watch: RssWatch

  constructor(name: string, start: () => TestProcess, onCrash: (what: string) => void) {
    this.name = name
    this.#start = start
    this.#onCrash = onCrash
    this.#process = this.#begin()
    this.#watch = this.#process.watchRss()
  }

  get process(): TestProcess {
    return this.#process
  }
  get frozen(): boolean {
    return this.#frozen
  }
  /** Highest resident memory of all its lives, bytes. */
  get peak(): number {
    return Math.max(this.#peak, this.#watch.highest)
  }

  async ready(): Promise<void> {
    await this.#process.heard('ready', START_MS)
  }

  /** kill -9, and at once a new one in its place. */
  async replace(): Promise<void> {
    this.#frozen = false
    await this.#process.kill()
    this.#peak = this.peak
    this.#process = this.#begin()
    this.#watch = this.#process.watchRss()
  }

  async freeze(): Promise<void> {
    if (this.#frozen || !this.#process.running) return
    this.#frozen = true
    await this.#process.freeze()
  }

  thaw(): void {
    this.#frozen = false
    this.#process.thaw()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#process[Symbol.asyncDispose]()
  }

  #begin(): TestProcess {
    const process = this.#start()
    // Whoever ends without having been killed has crashed.
    void process.exited.then(({ code, signal }) => {
      if (signal !== 'SIGKILL' && code !== 0) this.#onCrash(`${this.name} ended with ${code ?? signal}: ${process.stderr.slice(-2_000)}`)
    })
    return process
  }
}

/** A server, and every part of an installation in processes of its own. */
export class Field implements AsyncDisposable {
  readonly nats: NatsFixture
  readonly bus: Bus
  readonly dispatchers: Player[] = []
  readonly workers: Player[] = []
  readonly originators: Player[] = []
  /** Processes that ended by themselves, which none may. */
  readonly crashes: string[] = []
  readonly #directory: string
  readonly #node: string[]
  readonly #players: Player[] = []

  private constructor(of: { nats: NatsFixture; bus: Bus; directory: string; heap_mib: number | undefined }) {
    this.nats = of.nats
    this.bus = of.bus
    this.#directory = of.directory
    this.#node = of.heap_mib === undefined ? [] : [`--max-old-space-size=${of.heap_mib}`]
  }

  static async start(options: FieldOptions): Promise<Field> {
    const nats = await natsFixture({ nodes: options.nodes ?? 1 })
    const bus = await openBus({ servers: nats.servers, identity: 'passover', name: 'onlooker', onError: () => undefined })
    const directory = await mkdtemp(join(tmpdir(), 'passover-chaos-'))
    const field = new Field({ nats, bus, directory, heap_mib: options.heap_mib })
    try {
      await field.#open(options)
      return field
    } catch (error) {
      await field[Symbol.asyncDispose]()
      throw error
    }
  }

  get #servers(): string {
    return this.nats.servers.join(',')
  }

  async #open({ nodes, dispatchers, workers, agents = LOAD_AGENTS, concurrency = 16, begun = false }: FieldOptions): Promise<void> {
    await this.bus.ensureTopology(nodes === 3 ? { replicas: 3 } : {})
    for (let n = 1; n <= dispatchers; n += 1) this.dispatchers.push(this.player(`dispatcher ${n}`, 'service', { service: 'dispatcher' }))
    this.player('audit', 'service', { service: 'audit' })
    await Promise.all(this.#players.map((one) => one.ready()))
    const work = { agents, concurrency, ...(begun && { begun: this.#begunFile }) }
    for (let n = 1; n <= workers; n += 1) this.workers.push(this.player(`worker ${n}`, 'worker', work))
    await Promise.all(this.workers.map((one) => one.ready()))
  }

  get #begunFile(): string {
    return join(this.#directory, 'begun')
  }

  /** Starts a process of `support/roles/load/load-<role>.ts`. */
  player(
    name: string,
    role: 'service' | 'worker' | 'originator' | 'burst',
    options: Record<string, unknown> & { priority?: 'lowest' },
  ): Player {
    const { priority } = options
    const args = [JSON.stringify({ servers: this.#servers, ...options })]
    const start = () => startProcess(new URL(`load-${role}.js`, ROLES), { args, name, priority, node: this.#node })
    const made = new Player(name, start, (what) => this.crashes.push(what))
    this.#players.push(made)
    return made
  }

  originator(agent: string, options: { passes: number; every_ms: number; seed: number }): Player {
    const made = this.player(`${agent} (seed ${options.seed})`, 'originator', { agent, ...options })
    this.originators.push(made)
    return made
  }

  /** `<originator>/<subagent>/<id> <attempt>` of every run of a handler, in the order in which they began. */
  async begun(): Promise<string[]> {
    const text = await readFile(this.#begunFile, 'utf8').catch(() => '')
    return text.split('\n').slice(0, -1)
  }

  /** Nothing of the requests or work is left to be taken or acknowledged. */
  async untilIdle(agents: readonly string[], deadline_ms: number): Promise<void> {
    await untilTaken(this.nats.servers, deadline_ms)
    await until(
      async () => {
        const loads = (await Promise.all(agents.map((agent) => this.bus.workload(agent)))).flat()
        return loads.every(({ queued, running }) => queued + running === 0)
      },
      { what: 'no work is left', deadline_ms, every_ms: 500 },
    )
  }

  /** Of each process that it started, by process id; not the servers. */
  names(): Map<number, string> {
    return new Map(this.#players.map((one) => [one.process.pid, one.name]))
  }

  /** Each process and its highest resident memory so far, MiB. */
  peaks(): Record<string, number> {
    return Object.fromEntries(this.#players.map((one) => [one.name, Math.round(one.peak / (1 << 20))]))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#players.map((one) => one[Symbol.asyncDispose]()))
    await this.bus[Symbol.asyncDispose]()
    await this.nats[Symbol.asyncDispose]()
    await rm(this.#directory, { recursive: true, force: true })
  }
}
