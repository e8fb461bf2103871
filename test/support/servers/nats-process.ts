import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  type ClusterSettings,
  type RunningServer,
  resolveServerBinary,
  type ServerSettings,
  ServerStartFailed,
  startServer,
} from '@passover/nats-server'
import { stopProcess } from '../processes/proc.js'
import { until } from '../processes/until.js'
import type { MadeNodes, NatsNode } from './nats.js'
import { freePorts } from './ports.js'

let binary: Promise<string> | undefined

/** The nats-server that tests run; looked for once a process. */
export function serverBinary(): Promise<string> {
  binary ??= resolveServerBinary({ progress: (message) => process.stderr.write(`${message}\n`) }).then(({ path }) => path)
  return binary
}

interface Plan {
  name: string
  dir: string
  config: ServerSettings
  cluster?: ClusterSettings
}

/** The default maker: nats-server processes of this machine, their stores in temporary folders. */
export async function processNodes(names: string[], config: ServerSettings): Promise<MadeNodes> {
  for (let tries = 1; ; tries++) {
    const root = await mkdtemp(join(tmpdir(), 'passover-nats-'))
    try {
      const nodes = await startAll(await plansFor(root, names, config))
      return {
        nodes,
        async [Symbol.asyncDispose]() {
          await Promise.all(nodes.map((node) => node.remove()))
          await rm(root, { recursive: true, force: true })
        },
      }
    } catch (error) {
      await rm(root, { recursive: true, force: true })
      // A route port was taken between choosing and using it.
      if (!(error instanceof ServerStartFailed && error.taken) || tries === 5) throw error
    }
  }
}

/** All or none. */
async function startAll(plans: Plan[]): Promise<NatsNode[]> {
  const started = await Promise.allSettled(plans.map(startNode))
  const nodes = started.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  const failed = started.find((one) => one.status === 'rejected')
  if (!failed) return nodes
  await Promise.all(nodes.map((node) => node.remove()))
  throw failed.reason
}

async function plansFor(root: string, names: string[], config: ServerSettings): Promise<Plan[]> {
  if (names.length === 1) return names.map((name) => ({ name, dir: join(root, name), config }))
  const ports = await freePorts(names.length)
  const routes = ports.map((port) => `nats-route://127.0.0.1:${port}`)
  return names.map((name, i) => ({
    name,
    dir: join(root, name),
    config,
    cluster: { name: 'passover-test', host: '127.0.0.1', port: ports[i] ?? 0, routes },
  }))
}

async function startNode(plan: Plan): Promise<NatsNode> {
  const { name, dir, config, cluster } = plan
  const path = await serverBinary()
  const start = (port?: number) =>
    startServer({ dir, name, config, binary: path, ...(port ? { port } : {}), ...(cluster ? { cluster } : {}) })
  let server: RunningServer = await start()
  let running = true
  const { url, port } = server
  const end = async (how: 'stop' | 'kill') => {
    running = false
    // A stopped process takes no signal but SIGKILL until it goes on.
    server.signal('SIGCONT')
    await server[how]()
  }
  return {
    name,
    url,
    dir,
    get monitor() {
      return server.monitor ?? ''
    },
    get running() {
      return running
    },
    stop: () => end('stop'),
    kill: () => end('kill'),
    async restart() {
      if (running) await end('stop')
      server = await startAgain(() => start(port))
      running = true
      await until(() => healthy(server.monitor), { what: `${name} is healthy again`, deadline_ms: 60_000 })
    },
    pause: () => stopProcess(server.pid),
    async resume() {
      server.signal('SIGCONT')
    },
    async remove() {
      await end('kill')
      await rm(dir, { recursive: true, force: true })
    },
  }
}

/** On the port it had: that may serve as somebody's outgoing port for a moment. */
async function startAgain(start: () => Promise<RunningServer>): Promise<RunningServer> {
  for (let tries = 1; ; tries++) {
    try {
      return await start()
    } catch (error) {
      if (!(error instanceof ServerStartFailed && error.taken) || tries === 50) throw error
      await new Promise((again) => setTimeout(again, 100))
    }
  }
}

async function healthy(monitor = ''): Promise<boolean> {
  return (await fetch(new URL('/healthz', monitor), { signal: AbortSignal.timeout(2_000) })).ok
}
