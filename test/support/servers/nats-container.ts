import { type ClusterSettings, type ServerSettings, serverConfig } from '@passover/nats-server'
import { until } from '../processes/until.js'
import type { MadeNodes, NatsNode } from './nats.js'
import { natsImage } from './nats-image.js'
import { freePorts } from './ports.js'

// The reaper would be pulled from a registry; every fixture removes its own containers.
process.env.TESTCONTAINERS_RYUK_DISABLED = 'true'
const { GenericContainer, getContainerRuntimeClient, Network, Wait } = await import('testcontainers')

const CLIENTS = 4222
const ROUTES = 6222
const MONITOR = 8222
const START_MS = 60_000

/** The other maker: containers of testcontainers, for what only a machine of its own shows. Needs a Docker engine. */
export async function containerNodes(names: string[], config: ServerSettings): Promise<MadeNodes> {
  const image = await natsImage()
  const network = await new Network().start()
  const started = await Promise.allSettled(names.map((name) => startNode({ name, names, config, image, network })))
  const nodes = started.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  const dispose = async () => {
    await Promise.all(nodes.map((node) => node.remove()))
    await network.stop()
  }
  const failed = started.find((one) => one.status === 'rejected')
  if (failed) {
    await dispose()
    throw failed.reason
  }
  return { nodes, [Symbol.asyncDispose]: dispose }
}

interface Plan {
  name: string
  names: string[]
  config: ServerSettings
  image: string
  network: Awaited<ReturnType<InstanceType<typeof Network>['start']>>
}

async function startNode(plan: Plan): Promise<NatsNode> {
  const { container, port, monitorPort } = await startContainer(plan)
  const { name } = plan
  const monitor = `http://127.0.0.1:${monitorPort}`
  const runtime = await getContainerRuntimeClient()
  const raw = runtime.container.getById(container.getId())
  let state: 'running' | 'paused' | 'ended' = 'running'
  const resume = async () => {
    if (state !== 'paused') return
    await raw.unpause()
    state = 'running'
  }
  const end = async (how: () => Promise<unknown>) => {
    await resume()
    if (state === 'running') await how()
    state = 'ended'
  }
  return {
    name,
    url: `nats://127.0.0.1:${port}`,
    monitor,
    get running() {
      return state !== 'ended'
    },
    stop: () => end(() => raw.stop({ t: 30 })),
    kill: () => end(() => raw.kill({ signal: 'SIGKILL' }).then(() => raw.wait())),
    async restart() {
      await end(() => raw.stop({ t: 30 }))
      await raw.start()
      state = 'running'
      await until(async () => (await fetch(`${monitor}/healthz`, { signal: AbortSignal.timeout(2_000) })).ok, {
        what: `${name} is healthy again`,
        deadline_ms: START_MS,
      })
    },
    async pause() {
      await raw.pause()
      state = 'paused'
    },
    resume,
    async remove() {
      await resume()
      state = 'ended'
      await raw.remove({ force: true, v: true })
    },
  }
}

/** Host ports are fixed, so that an address outlives a restart; when one was taken in the meantime, others are tried. */
async function startContainer({ name, names, config, image, network }: Plan) {
  const cluster: ClusterSettings = {
    name: 'passover-test',
    host: '0.0.0.0',
    port: ROUTES,
    routes: names.map((one) => `nats-route://${one}:${ROUTES}`),
    advertise: false,
  }
  const place = { name, host: '0.0.0.0', port: CLIENTS, monitor_port: MONITOR, store: '/data' }
  const content = serverConfig(place, config, names.length > 1 ? cluster : undefined)
  for (let tries = 1; ; tries++) {
    const [port = 0, monitorPort = 0] = await freePorts(2)
    try {
      const container = await new GenericContainer(image)
        .withNetwork(network)
        .withNetworkAliases(name)
        .withCopyContentToContainer([{ content, target: '/nats.conf' }])
        .withExposedPorts({ container: CLIENTS, host: port }, { container: MONITOR, host: monitorPort })
        .withWaitStrategy(Wait.forLogMessage(/Server is ready/))
        .withStartupTimeout(START_MS)
        .start()
      return { container, port, monitorPort }
    } catch (error) {
      if (!/already allocated|address already in use/.test(String(error)) || tries === 5) throw error
    }
  }
}
