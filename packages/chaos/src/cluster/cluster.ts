import { mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type RunningServer, type ServerSettings, ServerStartFailed, startServer } from '@passover/nats-server'
import { pause, waitUntil } from '../wait-for.js'
import type { ClusterAccess } from './access.js'
import type { Network } from './network.js'

const STREAM = 'PASSOVER'
const MAX_ATTEMPTS = 50
/** Log line of a server that is elected leader of the stream, in any account. */
const ELECTED = new RegExp(`new stream leader for '[^']* > ${STREAM}'`)

/** A server. Its name, address and store stay the same when it is restarted. */
export class Node {
  readonly name: string
  /** Folder of its store. */
  readonly dir: string
  readonly #network: Network
  readonly #settings: ServerSettings
  #server: RunningServer | undefined
  #frozen = false

  constructor(name: string, { dir, network, settings }: { dir: string; network: Network; settings: ServerSettings }) {
    this.name = name
    this.dir = dir
    this.#network = network
    this.#settings = settings
  }

  get running(): boolean {
    return this.#server !== undefined
  }
  get pid(): number | undefined {
    return this.#server?.pid
  }
  /** Base URL of its monitoring endpoint. */
  get monitor(): string | undefined {
    return this.#server?.monitor
  }

  async start(): Promise<void> {
    if (this.#server) return
    const { host, port, cluster, binary } = this.#network.home(this.name)
    for (let tries = 1; ; tries += 1) {
      try {
        this.#server = await startServer({
          dir: this.dir,
          name: this.name,
          host,
          port,
          binary,
          config: { ...this.#settings, sync: 'always', monitor: true },
          ...(cluster && { cluster }),
        })
        return
      } catch (error) {
        // The port may briefly be in use as the outgoing port of another connection.
        if (!(error instanceof ServerStartFailed && error.taken) || tries === MAX_ATTEMPTS) throw error
        await pause(100)
      }
    }
  }

  async kill(): Promise<void> {
    await this.#end('kill')
  }
  async stop(): Promise<void> {
    await this.#end('stop')
  }
  async #end(how: 'kill' | 'stop'): Promise<void> {
    this.thaw()
    const ending = this.#server
    this.#server = undefined
    await ending?.[how]()
  }

  freeze(): void {
    this.#frozen = true
    this.#server?.signal('SIGSTOP')
  }
  thaw(): void {
    if (this.#frozen) this.#server?.signal('SIGCONT')
    this.#frozen = false
  }

  /** Queries its monitoring endpoint. Returns `undefined` if it does not answer. */
  async ask<T>(path: string): Promise<T | undefined> {
    if (!this.monitor) return undefined
    try {
      const answer = await fetch(new URL(path, this.monitor), { signal: AbortSignal.timeout(2_000) })
      return answer.ok ? ((await answer.json()) as T) : undefined
    } catch {
      return undefined
    }
  }

  /** Returns the end of its log (4,000 bytes). */
  async logTail(): Promise<string> {
    return (await this.#log()).subarray(-4_000).toString()
  }

  /** Returns the size of its log in bytes. */
  async logged(): Promise<number> {
    return (await this.#log()).length
  }

  /** Returns true if it was elected leader of the stream after its log had this size. Every election is logged, however short the term. */
  async ledSince(logged: number): Promise<boolean> {
    const log = await this.#log()
    // A smaller log has been started again.
    return ELECTED.test(log.subarray(log.length < logged ? 0 : logged).toString())
  }

  async #log(): Promise<Buffer> {
    return readFile(join(this.dir, 'nats-server.log')).catch(() => Buffer.alloc(0))
  }
}

interface StreamDetail {
  name: string
  state?: { messages?: number; last_seq?: number }
  cluster?: { leader?: string; replicas?: { current?: boolean }[] }
}

interface Jsz {
  meta_cluster?: { leader?: string; cluster_size?: number }
  account_details?: { stream_detail?: StreamDetail[] }[]
}

/** Difference in messages between replicas that counts as none, since they are queried one after the other while messages arrive. */
export const REPLICA_LAG_MESSAGES = 200

/** The servers of a run: a single one, or a cluster of three. */
export class Cluster implements AsyncDisposable {
  readonly nodes: readonly Node[]

  private constructor(nodes: readonly Node[]) {
    this.nodes = nodes
  }

  /** Starts the servers. `dirOf` returns the folder of a server's store. */
  static async start(
    names: readonly string[],
    network: Network,
    { dirOf, access }: { dirOf: (name: string) => string; access: ClusterAccess },
  ): Promise<Cluster> {
    for (const name of names) await mkdir(dirOf(name), { recursive: true })
    const cluster = new Cluster(names.map((name) => new Node(name, { dir: dirOf(name), network, settings: access.settings(dirOf(name)) })))
    await Promise.all(cluster.nodes.map((node) => node.start()))
    return cluster
  }

  node(name: string): Node {
    const found = this.nodes.find((one) => one.name === name)
    if (!found) throw new Error(`there is no server ${name}`)
    return found
  }

  /** Returns the server that currently leads the stream. */
  async leader(): Promise<Node | undefined> {
    if (this.nodes.length === 1) return this.nodes[0]
    for (const node of this.nodes) {
      const said = await node.ask<Jsz>('/jsz?accounts=1&streams=1')
      const leader = said && streamsOf(said).find(({ name }) => name === STREAM)?.cluster?.leader
      const found = this.nodes.find(({ name, running }) => name === leader && running)
      if (found) return found
    }
    return undefined
  }

  /** Waits until all servers run, are healthy and agree on the leader, and every stream has a leader and up-to-date replicas. */
  settled(deadline_ms: number): Promise<boolean> {
    return waitUntil(() => this.#isSettled(), { deadline_ms, every_ms: 200 })
  }

  async #isSettled(): Promise<boolean> {
    const leaders = new Set<string>()
    const states: StreamDetail['state'][] = []
    for (const node of this.nodes) {
      const health = await node.ask<{ status?: string }>('/healthz')
      if (health?.status !== 'ok') return false
      if (this.nodes.length === 1) continue
      const said = await node.ask<Jsz>('/jsz?accounts=1&streams=1')
      if (!said?.meta_cluster?.leader || said.meta_cluster.cluster_size !== this.nodes.length) return false
      leaders.add(said.meta_cluster.leader)
      const led = streamsOf(said).filter(({ cluster }) => cluster?.leader === node.name)
      if (led.some(({ cluster }) => cluster?.replicas?.some(({ current }) => !current))) return false
      states.push(streamsOf(said).find(({ name }) => name === STREAM)?.state)
    }
    return leaders.size <= 1 && areAlike(states)
  }

  /** Returns the number of messages in each server's copy of the stream, `undefined` if it does not answer. */
  async copies(): Promise<Record<string, number | undefined>> {
    const said = this.nodes.map(async (node) => {
      const found = await node.ask<Jsz>('/jsz?accounts=1&streams=1')
      return [node.name, found && streamsOf(found).find(({ name }) => name === STREAM)?.state?.messages] as const
    })
    return Object.fromEntries(await Promise.all(said))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.kill()))
  }
}

/**
 * Compares the replicas themselves: the server also reports a replica as current whose block was damaged and that lacks thousands of messages
 * (decision 86).
 */
function areAlike(states: readonly StreamDetail['state'][]): boolean {
  const spread = (values: number[]) => Math.max(...values) - Math.min(...values)
  const known = states.filter((state) => state !== undefined)
  if (known.length === 0) return true
  const differ = Math.max(spread(known.map(({ messages = 0 }) => messages)), spread(known.map(({ last_seq = 0 }) => last_seq)))
  return known.length === states.length && differ <= REPLICA_LAG_MESSAGES
}

function streamsOf({ account_details = [] }: Jsz) {
  return account_details.flatMap(({ stream_detail = [] }) => stream_detail)
}
