import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { openBus, PolicyStore, type Principal } from '@passover/bus'
import { passOverPreferences } from '@passover/schemas'
import { CHAOS_POLICY, GATED_AGENT } from '../load/chaos-requests.js'
import { LOAD_AGENTS } from '../load/load-plan.js'
import { waitUntil } from '../wait-for.js'
import { ClusterAccess, PERSON_NAME } from './access.js'
import { ChaosProcess, type ChaosProcessOptions } from './chaos-process.js'
import { Cluster } from './cluster.js'
import { DiskLimits } from './disk-limit.js'
import { LoopbackNetwork } from './loopback-network.js'
import { NamespaceNetwork } from './namespace-network.js'
import type { NamespaceSandbox } from './namespace-sandbox.js'
import type { Network } from './network.js'

/** Groups of processes that share a connection to the servers. */
export const PARTIES = ['services', 'agents'] as const
const DISPATCHERS = ['dispatcher 1', 'dispatcher 2']
const WORKERS = ['worker 1', 'worker 2']
const ORIGINATORS = ['alice', 'bob', 'carol']
/** Originators with durable returns. Their returns stay in the stream until they have been acknowledged. */
export const DURABLE = ['carol']
const CONCURRENCY = 16
/** Principals of a run. The person also has the auditor role, to verify the result of the run. */
const PRINCIPALS: readonly Principal[] = [
  ...ORIGINATORS.map((name) => ({ role: 'agent' as const, name, originates: true, subagent: false })),
  ...[...LOAD_AGENTS, GATED_AGENT].map((name) => ({ role: 'agent' as const, name, originates: true, subagent: true })),
  { role: 'auditor', name: PERSON_NAME },
  { role: 'dispatcher' },
  { role: 'audit' },
]
const SETTLE_TIMEOUT_MS = 120_000

export interface TopologyOptions {
  seed: number
  servers: readonly string[]
  binary: string
  /** Passes requested per second by all originators together. */
  rate: number
  /** Time in milliseconds for which an id counts as fresh. Closed passes leave the stream after twice this time. */
  id_window_ms: number
  /** Folder for stores, logs and histories. */
  dir: string
  /** `namespaces`: true if this process has its own network namespace (namespace-sandbox.ts). `mounts`: true if it may mount file systems there. */
  namespaces: boolean
  mounts: boolean
  /** True to give each agent an account of its own. */
  isolated: boolean
  /** Method by which traffic can be slowed. */
  shaping: NamespaceSandbox['shaping']
}

/** Processes that the schedule may target, by kind. */
export const PROCESSES: Readonly<Record<string, readonly string[]>> = {
  dispatcher: DISPATCHERS,
  worker: WORKERS,
  originator: ORIGINATORS,
  audit: ['audit'],
  person: [PERSON_NAME],
}

/** Everything that runs: the servers, the network between them, and the processes. */
export class Topology implements AsyncDisposable {
  readonly options: TopologyOptions
  readonly network: Network
  readonly cluster: Cluster
  readonly access: ClusterAccess
  readonly disks: DiskLimits
  readonly actors = new Map<string, ChaosProcess>()
  /** Processes that exited by themselves. */
  readonly crashes: string[] = []

  private constructor(options: TopologyOptions, parts: { network: Network; cluster: Cluster; disks: DiskLimits; access: ClusterAccess }) {
    this.options = options
    this.network = parts.network
    this.cluster = parts.cluster
    this.disks = parts.disks
    this.access = parts.access
  }

  static async open(options: TopologyOptions): Promise<Topology> {
    const { servers, binary, dir } = options
    for (const folder of ['logs', 'history', 'stores']) await mkdir(join(dir, folder), { recursive: true })
    const wanted = { servers, parties: PARTIES, binary, dir }
    const network = options.namespaces ? await NamespaceNetwork.open(wanted) : await LoopbackNetwork.open(wanted)
    const disks = await DiskLimits.open(servers, { dir: join(dir, 'stores'), mounts: options.mounts })
    const access = await ClusterAccess.create(join(dir, 'credentials'), options.isolated)
    const cluster = await Cluster.start(servers, network, { dirOf: (name) => disks.dirOf(name), access })
    const topology = new Topology(options, { network, cluster, disks, access })
    // A frozen process cannot notice that it has to exit.
    process.once('exit', () => topology.#thaw())
    try {
      await topology.#begin()
      return topology
    } catch (error) {
      await topology[Symbol.asyncDispose]()
      throw error
    }
  }

  get historyDir(): string {
    return join(this.options.dir, 'history')
  }
  /** Addresses whose connections are never disturbed. */
  get servers(): string[] {
    return this.network.servers('runner')
  }

  async #begin(): Promise<void> {
    if (!(await this.cluster.settled(SETTLE_TIMEOUT_MS))) throw new Error('the servers did not settle')
    await this.access.issue(this.servers, PRINCIPALS, SETTLE_TIMEOUT_MS)
    const as = this.access.of('dispatcher')
    const bus = await openBus({ servers: this.servers, identity: 'passover', name: 'chaos', timeout_ms: 15_000, ...as })
    // Retries, since a cluster may need a moment to create a stream.
    const topology = { replicas: this.options.servers.length, id_window_ms: this.options.id_window_ms }
    const made = await waitUntil(() => bus.ensureTopology(topology).then(() => true), { deadline_ms: SETTLE_TIMEOUT_MS, every_ms: 500 })
    await bus[Symbol.asyncDispose]()
    if (!made) throw new Error('the streams could not be made')
    if (!(await waitUntil(() => this.#policy(), { deadline_ms: SETTLE_TIMEOUT_MS, every_ms: 500 })))
      throw new Error('the policy could not be published')
    await this.#services()
    await this.#agents()
  }

  /** Publishes the policy as a person does, because a policy that is only in a process's environment cannot be verified later. */
  async #policy(): Promise<boolean> {
    await using bus = await openBus({ servers: this.servers, identity: PERSON_NAME, ...this.access.of(PERSON_NAME) })
    const store = await PolicyStore.open(bus)
    const draft = { document: passOverPreferences.parse(CHAOS_POLICY), base: 0, reason: 'a run' }
    return (await store.stand()).kind === 'valid' || (await store.publish(draft)).kind === 'published'
  }

  async #services(): Promise<void> {
    const common = { NATS_URL: this.network.servers('services').join(','), PASSOVER_LOG_LEVEL: 'warn' }
    const { folder } = this.access
    const env = (service: string) => ({ ...common, ...(folder && { PASSOVER_CREDENTIALS: join(folder, `${service}.creds`) }) })
    for (const name of DISPATCHERS)
      this.#add(name, { role: 'service', party: 'services', told: { service: 'dispatcher', env: env('dispatcher') } })
    this.#add('audit', { role: 'service', party: 'services', told: { service: 'audit', env: env('audit') } })
    await this.#ready()
  }

  async #agents(): Promise<void> {
    const servers = this.network.servers('agents').join(',')
    const agents = [...LOAD_AGENTS, GATED_AGENT]
    const { folder } = this.access
    const histories = { begun: join(this.historyDir, 'begun'), runs: join(this.historyDir, 'runs') }
    const work = { servers, folder, agents, concurrency: CONCURRENCY, ...histories }
    for (const name of WORKERS) this.#add(name, { role: 'worker', party: 'agents', told: { ...work, worker: name } })
    this.#add(PERSON_NAME, { role: 'person', party: 'agents', told: { servers, folder, person: PERSON_NAME } })
    await this.#ready()
  }

  /** Starts the load. */
  async ask(): Promise<void> {
    const servers = this.network.servers('agents').join(',')
    const every_ms = (ORIGINATORS.length * 1_000) / this.options.rate
    for (const [n, agent] of ORIGINATORS.entries()) {
      const history = join(this.historyDir, `${agent}.history.jsonl`)
      const seed = this.options.seed * ORIGINATORS.length + n
      this.#add(agent, {
        role: 'originator',
        party: 'agents',
        told: { servers, folder: this.access.folder, agent, every_ms, seed, history, durable: DURABLE.includes(agent) },
      })
    }
    await this.#ready()
  }

  /** Stops the load and waits for the results of open requests. Returns the names of the originators that did not finish in time. */
  async answered(deadline_ms: number): Promise<string[]> {
    const asking = this.of('originator')
    for (const one of asking) one.tell({ stop: true })
    const ended = await Promise.all(asking.map(async (one) => ((await one.hears('done', deadline_ms)) ? [] : [one.name])))
    return ended.flat()
  }

  #add(name: string, how: { role: ChaosProcessOptions['role']; party: string; told: object }): void {
    const kind = Object.keys(PROCESSES).find((one) => PROCESSES[one]?.includes(name)) ?? name
    const actor = new ChaosProcess({
      name,
      kind,
      role: how.role,
      told: how.told,
      env: { PASSOVER_ID_WINDOW_MS: String(this.options.id_window_ms) },
      launch: (command) => this.network.launch(how.party, command),
      log: join(this.options.dir, 'logs', `${name.replace(' ', '-')}.log`),
      onCrash: (what) => this.crashes.push(what),
    })
    this.actors.set(name, actor)
  }

  async #ready(): Promise<void> {
    const all = await Promise.all([...this.actors.values()].map(async (one) => ((await one.ready()) ? [] : [one.name])))
    const late = all.flat()
    if (late.length > 0) throw new Error(`not ready: ${late.join(', ')} (their logs are in ${this.options.dir}/logs)`)
  }

  #thaw(): void {
    for (const node of this.cluster.nodes) node.thaw()
    for (const actor of this.actors.values()) actor.thaw()
  }

  actor(name: string): ChaosProcess | undefined {
    return this.actors.get(name)
  }
  of(kind: string): ChaosProcess[] {
    return [...this.actors.values()].filter((one) => one.kind === kind)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.actors.values()].map((one) => one[Symbol.asyncDispose]()))
    await this.cluster[Symbol.asyncDispose]()
    await this.network[Symbol.asyncDispose]()
    await this.disks[Symbol.asyncDispose]()
  }
}
