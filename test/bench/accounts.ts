import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect, credsAuthenticator, type NatsConnection } from '@nats-io/transport-node'
import { openBus } from '@passover/bus'
import {
  AccountResolver,
  createInstallation,
  type Installation,
  issueAgent,
  issueAgentUser,
  issueCoreUser,
  issueSystemUser,
  operatorSettings,
  type SignedAccount,
} from '@passover/bus/auth'
import { type RunningServer, startServer } from '@passover/nats-server'
import { type Load, median, Pipeline } from './pipelines/pipeline.js'

/**
 * What an account of its own for each agent costs: `npm run bench -- --accounts [cost] [thousand] [answers]`, all when none is named.
 *
 * - `cost`: the product with and without accounts, each on a server of its own, taking turns: nothing is compared but two runs of one round.
 * - `thousand`: PASSOVER_ACCOUNTS (1,000) agents on one server: start, memory, and adding one while another agent publishes.
 * - `answers`: what the server remembers of where answers go, over PASSOVER_REQUESTS (100,000) requests of each kind.
 */
const number = (name: string, otherwise: number) => Number(process.env[name] ?? otherwise)
const ACCOUNTS = number('PASSOVER_ACCOUNTS', 1_000)
const REQUESTS = number('PASSOVER_REQUESTS', 100_000)
const ROUNDS = number('PASSOVER_ROUNDS', 3)
const IN_FLIGHT = 256
const API = '$JS.API'

const PARTS = { cost, thousand, answers }
async function cost(): Promise<void> {
  await using plain = await Pipeline.start('product')
  await using isolated = await Pipeline.start('product', { accounts: true })
  const settings: (Load & { name: string; warm: number })[] = [
    { name: '256 in flight', inflight: 256, passes: 8_000, originators: 1, warm: 16_000 },
    { name: 'alone', inflight: 1, passes: 500, originators: 1, warm: 300 },
  ]
  for (const setting of settings) {
    for (const one of [plain, isolated]) await one.run({ ...setting, passes: setting.warm })
    const ratios: { rate: number; p50: number; nats: number }[] = []
    for (let round = 0; round < ROUNDS; round += 1) {
      const order = round % 2 === 0 ? [plain, isolated] : [isolated, plain]
      const got = new Map<Pipeline, Awaited<ReturnType<Pipeline['run']>>>()
      for (const one of order) got.set(one, await one.run(setting))
      const [without, with_] = [got.get(plain), got.get(isolated)]
      if (!without || !with_) continue
      ratios.push({ rate: with_.rate / without.rate, p50: with_.p50 / without.p50, nats: (with_.cpu.nats ?? 0) / (without.cpu.nats ?? 1) })
      print(
        `${setting.name}: ${without.rate.toFixed(0)}/s → ${with_.rate.toFixed(0)}/s, p50 ${without.p50.toFixed(2)} → ${with_.p50.toFixed(2)} ms, ` +
          `CPU of nats-server ${without.cpu.nats?.toFixed(0)} → ${with_.cpu.nats?.toFixed(0)} µs a pass`,
      )
    }
    const middle = (pick: (one: (typeof ratios)[number]) => number) => median(ratios.map(pick)).toFixed(2)
    print(
      `${setting.name}: with accounts ${middle((one) => one.rate)} of the rate, ${middle((one) => one.p50)} of p50, ${middle((one) => one.nats)} of the server's CPU time`,
    )
  }
}

async function thousand(): Promise<void> {
  await using made = await Isolated.start()
  const { installation } = made
  print(`without agents: ${await made.rss()} MiB`)
  const issuing = performance.now()
  const accounts = await Promise.all(Array.from({ length: ACCOUNTS }, (_, n) => made.issue(`agent${n}`)))
  print(`${ACCOUNTS} accounts signed in ${since(issuing)} ms, ${Math.round((accounts[0]?.jwt.length ?? 0) / 1024)} KiB each`)
  const pushing = performance.now()
  for (const { jwt } of accounts) await made.resolver.push(jwt)
  print(`pushed in ${since(pushing)} ms`)
  await made.restart()
  print(`start with ${ACCOUNTS} accounts stored: ${made.started_ms} ms, ${await made.rss()} MiB`)

  const connecting = performance.now()
  const connections: NatsConnection[] = []
  for (const [n, account] of accounts.entries()) connections.push(await made.connect(`agent${n}`, account))
  print(`${ACCOUNTS} agents connected in ${since(connecting)} ms, ${await made.rss()} MiB`)

  const core = await made.resolver.lookup(installation.core.id)
  const [watched] = connections
  if (!watched) return
  let [done, stop] = [0, false]
  const waits: number[] = []
  const publishing = (async () => {
    for (; !stop; done += 1) {
      const begun = performance.now()
      await watched.request('request.agent1.agent0', 'x', { timeout: 10_000 })
      waits.push(performance.now() - begun)
    }
  })()
  const adding = performance.now()
  const added = await made.issue('one-more')
  await made.resolver.push(added.jwt)
  const pushed = since(adding)
  const nc = await made.connect('one-more', added)
  await nc.request('request.agent1.one-more', 'x', { timeout: 10_000 })
  print(`one more, signed and pushed in ${pushed} ms, its first publish stored after ${since(adding)} ms`)
  stop = true
  await publishing
  waits.sort((a, b) => a - b)
  print(
    `another agent meanwhile: ${done} publishes, none lost, slowest ${waits.at(-1)?.toFixed(1)} ms, connections lost ${watched.isClosed() ? 1 : 0}`,
  )
  print(`core account unchanged: ${(await made.resolver.lookup(installation.core.id)) === core}`)
  await Promise.all([...connections, nc].map((one) => one.close()))
}

async function answers(): Promise<void> {
  await using made = await Isolated.start()
  const bus = await openBus({
    servers: made.server.url,
    identity: 'passover',
    credentials: { creds: (await issueCoreUser(made.installation, { role: 'dispatcher' })).creds },
  })
  await bus.ensureAgent('alice', { subagent: true, max_attempts: 3, lease_ms: 5_000 })
  const account = await made.issue('alice')
  await made.resolver.push(account.jwt)
  const nc = await made.connect('alice', account)
  const pull = JSON.stringify({ batch: 1, no_wait: true })
  const kinds: [string, string, string][] = [
    ['publishes', 'request.x.alice', 'x'],
    ['direct gets', `${API}.DIRECT.GET.PASSOVER.work.*.alice.x`.replace('*', 'bob'), ''],
    ['pulls', `${API}.CONSUMER.MSG.NEXT.PASSOVER.work_alice_high`, pull],
  ]
  print(`before: ${await made.rss()} MiB`)
  for (const [name, subject, body] of kinds) {
    const begun = performance.now()
    await inFlight(REQUESTS, () => nc.request(subject, body, { timeout: 30_000 }))
    print(`${REQUESTS} ${name}: ${Math.round((REQUESTS * 1_000) / (performance.now() - begun))}/s, ${await made.rss()} MiB`)
  }
  await new Promise((resolve) => setTimeout(resolve, 25_000))
  print(`25 s later: ${await made.rss()} MiB`)
  for (let again = 0; again < 3; again += 1) {
    await inFlight(REQUESTS, () => nc.request(`${API}.CONSUMER.MSG.NEXT.PASSOVER.work_alice_high`, pull, { timeout: 30_000 }))
    print(`${REQUESTS} pulls again: ${await made.rss()} MiB`)
  }
  await nc.close()
  await bus[Symbol.asyncDispose]()
}

/** A server in operator mode on a folder of its own. */
class Isolated implements AsyncDisposable {
  started_ms = 0

  private constructor(
    readonly installation: Installation,
    private readonly folder: string,
    public server: RunningServer,
    public resolver: AccountResolver,
  ) {}

  static async start(): Promise<Isolated> {
    const folder = mkdtempSync(join(tmpdir(), 'passover-bench-'))
    const installation = await createInstallation()
    const server = await serve(installation, folder)
    const made = new Isolated(installation, folder, server, await manage(installation, server))
    const creds = (await issueCoreUser(installation, { role: 'dispatcher' })).creds
    await using bus = await openBus({ servers: server.url, identity: 'passover', credentials: { creds } })
    await bus.ensureTopology()
    return made
  }

  async restart(): Promise<void> {
    await this.resolver[Symbol.asyncDispose]()
    await this.server.stop()
    const begun = performance.now()
    this.server = await serve(this.installation, this.folder)
    this.started_ms = since(begun)
    this.resolver = await manage(this.installation, this.server)
  }

  issue(name: string): Promise<SignedAccount> {
    return issueAgent(this.installation, { role: 'agent', name, originates: true, subagent: true })
  }

  async connect(name: string, account: SignedAccount): Promise<NatsConnection> {
    const { creds } = await issueAgentUser({ role: 'agent', name, originates: true, subagent: true }, account)
    const authenticator = credsAuthenticator(new TextEncoder().encode(creds))
    return connect({ servers: this.server.url, authenticator, inboxPrefix: `_INBOX_${name}`, noAsyncTraces: true })
  }

  /** MiB. */
  async rss(): Promise<number> {
    const { mem } = (await (await fetch(new URL('/varz', this.server.monitor))).json()) as { mem: number }
    return Math.round(mem / 1_048_576)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.resolver[Symbol.asyncDispose]()
    await this.server.stop()
    rmSync(this.folder, { recursive: true, force: true })
  }
}

function serve(installation: Installation, folder: string): Promise<RunningServer> {
  return startServer({ dir: folder, config: { monitor: true, operator: operatorSettings(installation, join(folder, 'accounts')) } })
}

async function manage(installation: Installation, server: RunningServer): Promise<AccountResolver> {
  return AccountResolver.open({ servers: server.url, creds: (await issueSystemUser(installation)).creds })
}

async function inFlight(count: number, work: () => Promise<unknown>): Promise<void> {
  let left = count
  const lane = async () => {
    while (left-- > 0) await work()
  }
  await Promise.all(Array.from({ length: IN_FLIGHT }, lane))
}

function since(begun: number): number {
  return Math.round(performance.now() - begun)
}

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}

const given = Object.keys(PARTS).filter((name) => process.argv.includes(name)) as (keyof typeof PARTS)[]
for (const name of given.length > 0 ? given : (Object.keys(PARTS) as (keyof typeof PARTS)[])) await PARTS[name]()
