import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  AccountResolver,
  createInstallation,
  issueAgent,
  issueAgentUser,
  issueCoreUser,
  issueSystemUser,
  operatorSettings,
} from '@passover/bus/auth'
import { type RunningServer, startServer } from '@passover/nats-server'
import { type Measured, type Role, startRole, type Usage } from '../measure/harness.js'

export type Kind = 'raw' | 'product'

export interface Load {
  passes: number
  inflight: number
  /** Processes that share the load. */
  originators: number
}

/** What one round showed. */
export interface Round {
  rate: number
  /** The same until its readers, too, have everything. */
  settled_rate: number
  p50: number
  p99: number
  /** By part: CPU µs a pass, and resident MiB. `nats` is the server. */
  cpu: Record<string, number>
  rss: Record<string, number>
}

const PARTS = ['dispatcher', 'audit', 'worker']
const AUDIT = PARTS.indexOf('audit')

/** One of the two under measure: a server of its own and the processes that make up its passes. It stays up between rounds. */
export class Pipeline implements AsyncDisposable {
  /** PARTS, then the originators. */
  readonly #roles: Role[] = []

  private constructor(
    readonly kind: Kind,
    private readonly server: RunningServer,
    private readonly setting: { folder: string; agents_niceness: number; credentials: Record<string, string> },
  ) {}

  /**
   * `agents_niceness`, of the product: where what agents use of these processors, which in earnest they share with nobody, is not to be measured.
   * `accounts`: the product with an account of its own for each agent.
   */
  static async start(kind: Kind, { agents_niceness = 0, accounts = false } = {}): Promise<Pipeline> {
    const folder = mkdtempSync(join(tmpdir(), 'passover-bench-'))
    const isolated = accounts ? await isolatedServer(folder) : undefined
    const server = isolated?.server ?? (await startServer({ dir: folder }))
    const pipeline = new Pipeline(kind, server, { folder, agents_niceness, credentials: isolated?.credentials ?? {} })
    for (const part of PARTS) await pipeline.#add(part, 0)
    await pipeline.originators(1)
    return pipeline
  }

  /** Has so many originators, all of one name. */
  async originators(count: number): Promise<void> {
    const there = this.#roles.length - PARTS.length
    await Promise.all(Array.from({ length: count - there }, (_, n) => this.#add('originator', there + n)))
  }

  async run(load: Load): Promise<Round> {
    const before = { parts: await this.#usage(), nats: cpuOf(this.server.pid) }
    const begun = performance.now()
    const got = await this.#drive(load)
    // What the readers still have to do belongs to this round, and must not slow the next one.
    await this.#roles[AUDIT]?.ask({ settle: true })
    const settled_rate = (load.passes * 1_000) / (performance.now() - begun)
    const after = await this.#usage()
    const names = [...PARTS, 'originator']
    const spent = after.map((one, n) => [names[n], (one.cpu_us - (before.parts[n]?.cpu_us ?? 0)) / load.passes])
    const cpu = Object.fromEntries([...spent, ['nats', (cpuOf(this.server.pid) - before.nats) / load.passes]])
    return { ...got, settled_rate, cpu, rss: Object.fromEntries(after.map((one, n) => [names[n], one.rss / 1048576])) }
  }

  /** Of the product: how long after a return was heard its record can be read, ms; the 99th percentile of `n` passes. */
  async audited(n: number): Promise<number> {
    return (await this.#originator(0)?.ask<number>({ audit: n })) ?? 0
  }

  /** Of the product: passes at a steady rate; of every `told_every`th it is asked when the audit tells that it ended. */
  async paced(load: { passes: number; rate: number; told_every: number }): Promise<{ passes: Measured; told: Measured }> {
    const got = await this.#originator(0)?.ask<{ passes: Measured; told: Measured }>(load)
    if (!got) throw new Error('no originator')
    await this.#roles[AUDIT]?.ask({ settle: true })
    return got
  }

  get url(): string {
    return this.server.url
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#roles.map((one) => one[Symbol.asyncDispose]()))
    await this.server.stop()
    rmSync(this.setting.folder, { recursive: true, force: true })
  }

  async #add(role: string, n: number): Promise<void> {
    const { agents_niceness: niceness } = this.setting
    const credentials = this.setting.credentials[role]
    const options = { role, servers: this.server.url, instance: String(n).padStart(7, 'a'), niceness, ...(credentials && { credentials }) }
    this.#roles.push(await startRole(new URL(`./${this.kind}.js`, import.meta.url), options))
  }

  #originator(n: number): Role | undefined {
    return this.#roles[PARTS.length + n]
  }

  async #drive({ passes, inflight, originators }: Load): Promise<Pick<Round, 'rate' | 'p50' | 'p99'>> {
    const share = (total: number) => Math.max(1, Math.floor(total / originators))
    const roles = this.#roles.slice(PARTS.length, PARTS.length + originators)
    const started = performance.now()
    const got = await Promise.all(roles.map((one) => one.ask<Measured>({ passes: share(passes), inflight: share(inflight) })))
    const seconds = (performance.now() - started) / 1000
    const done = got.reduce((sum, one) => sum + one.passes, 0)
    return { rate: done / seconds, p50: median(got.map((one) => one.p50)), p99: median(got.map((one) => one.p99)) }
  }

  /** Of the parts and the first originator. */
  #usage(): Promise<Usage[]> {
    return Promise.all(this.#roles.slice(0, PARTS.length + 1).map((one) => one.usage()))
  }
}

async function isolatedServer(folder: string): Promise<{ server: RunningServer; credentials: Record<string, string> }> {
  const installation = await createInstallation()
  const server = await startServer({ dir: folder, config: { operator: operatorSettings(installation, join(folder, 'accounts')) } })
  await using resolver = await AccountResolver.open({ servers: server.url, creds: (await issueSystemUser(installation)).creds })
  const agent = async (name: string, subagent: boolean) => {
    const principal = { role: 'agent', name, originates: !subagent, subagent } as const
    const account = await issueAgent(installation, principal)
    await resolver.push(account.jwt)
    return (await issueAgentUser(principal, account)).creds
  }
  const service = async (role: 'dispatcher' | 'audit') => (await issueCoreUser(installation, { role })).creds
  return {
    server,
    credentials: {
      originator: await agent('alice', false),
      worker: await agent('audit', true),
      dispatcher: await service('dispatcher'),
      audit: await service('audit'),
    },
  }
}

/** CPU time of a process that is not ours, in µs (Linux; 0 elsewhere). */
function cpuOf(pid: number): number {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
    return (Number(fields[11]) + Number(fields[12])) * 10_000
  } catch {
    return 0
  }
}

/** The middle one, or the mean of the two in the middle. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const half = sorted.length / 2
  return ((sorted[Math.ceil(half) - 1] ?? 0) + (sorted[Math.floor(half)] ?? 0)) / 2
}
