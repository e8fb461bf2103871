import type { ServerSettings } from '@passover/nats-server'
import { until } from '../processes/until.js'
import { type Census, takeCensus } from './nats-monitor.js'

/** One server of a fixture. Its URL stays the same over restarts. */
export interface NatsNode {
  readonly name: string
  readonly url: string
  /** Base address of its monitoring endpoints. */
  readonly monitor: string
  /** Where its store is; undefined in a container. */
  readonly dir?: string
  readonly running: boolean
  /** Ends it in order. */
  stop(): Promise<void>
  /** Ends it as `kill -9` does. */
  kill(): Promise<void>
  /** Starts it again on its store (stops it first if it runs), and waits until it serves. */
  restart(): Promise<void>
  /** Freezes it: connections stay open and nobody answers. */
  pause(): Promise<void>
  resume(): Promise<void>
  /** Removes it and its store for good. */
  remove(): Promise<void>
}

export type Maker = 'process' | 'container'

export interface FixtureOptions {
  /** Default 1. Three form a cluster. */
  nodes?: 1 | 3
  /** Default `process`; `container` needs a Docker engine (see dockerMissing). */
  maker?: Maker
  /** Users with permissions, sync interval and so on. */
  config?: ServerSettings
}

/** A disposable NATS with JetStream. `await using nats = await natsFixture()`. */
export interface NatsFixture extends AsyncDisposable {
  readonly maker: Maker
  readonly nodes: NatsNode[]
  /** URLs of all nodes: what a client is given as `servers`. */
  readonly servers: string[]
  /** The first node's URL. */
  readonly url: string
  /** The first node. */
  readonly node: NatsNode
  /** Clients, subscriptions and consumers that the servers know now. */
  census(): Promise<Census>
  /** Waits until nothing is there that was not in `before`; else fails and names it. */
  untilNothingLeft(before: Census, deadline_ms?: number): Promise<void>
  /** Waits until every running node has the cluster's leader (three nodes), and is caught up. */
  untilSettled(deadline_ms?: number): Promise<void>
}

export async function natsFixture(options: FixtureOptions = {}): Promise<NatsFixture> {
  const maker = options.maker ?? 'process'
  const size = options.nodes ?? 1
  // Imported when wanted: testcontainers is slow to load, and most tests do without.
  const make = maker === 'process' ? (await import('./nats-process.js')).processNodes : (await import('./nats-container.js')).containerNodes
  const names = Array.from({ length: size }, (_, i) => `n${i + 1}`)
  const made = await make(names, { ...options.config, monitor: true })
  const fixture = assemble(maker, made)
  try {
    await fixture.untilSettled()
    return fixture
  } catch (error) {
    await fixture[Symbol.asyncDispose]()
    throw error
  }
}

export interface MadeNodes extends AsyncDisposable {
  nodes: NatsNode[]
}

function assemble(maker: Maker, made: MadeNodes): NatsFixture {
  const { nodes } = made
  const [node] = nodes
  if (!node) throw new Error('a fixture has at least one node')
  const monitors = () => nodes.filter((one) => one.running).map((one) => one.monitor)
  return {
    maker,
    nodes,
    node,
    servers: nodes.map((one) => one.url),
    url: node.url,
    census: () => takeCensus(monitors()),
    async untilNothingLeft(before, deadline_ms = 30_000) {
      let left: string[] = []
      await until(
        async () => {
          left = (await takeCensus(monitors())).notIn(before)
          return left.length === 0
        },
        { what: 'nothing is left behind', deadline_ms },
      ).catch(() => {
        throw new Error(`left behind: ${left.join(', ')}`)
      })
    },
    untilSettled: (deadline_ms = 30_000) =>
      until(() => settled(monitors(), nodes.length), { what: 'the servers settle', deadline_ms }).then(() => {}),
    [Symbol.asyncDispose]: () => made[Symbol.asyncDispose](),
  }
}

/** Healthy, and in a cluster of one mind about its leader. */
async function settled(monitors: string[], size: number): Promise<boolean> {
  const leaders = new Set<string>()
  for (const monitor of monitors) {
    const health = await fetch(new URL('/healthz', monitor), { signal: AbortSignal.timeout(2_000) })
    if (!health.ok) return false
    if (size === 1) continue
    const answer = await fetch(new URL('/jsz', monitor), { signal: AbortSignal.timeout(2_000) })
    const { meta_cluster } = (await answer.json()) as { meta_cluster?: { leader?: string; cluster_size?: number } }
    if (!meta_cluster?.leader || meta_cluster.cluster_size !== size) return false
    leaders.add(meta_cluster.leader)
  }
  return size === 1 || leaders.size === 1
}
