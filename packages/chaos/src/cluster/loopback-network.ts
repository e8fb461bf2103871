import { createServer, type Server } from 'node:net'
import type { ClusterSettings } from '@passover/nats-server'
import { type LinkProxy, proxyTo } from './link-proxy.js'
import { CLUSTER_NAME, type LinkTrouble, type Network, type NetworkOptions, type RestoreLink, type ServerHome } from './network.js'

const HOST = '127.0.0.1'
/** Address without a listener. Advertised so that servers reach each other only through the proxies. */
const NOWHERE = `${HOST}:1`

/**
 * Network on this machine's loopback. Every connection goes through a proxy: each server has one for each other server and one for each party. A cut
 * link is silent (nothing arrives, no end is notified), and its connections break when it is restored.
 */
export class LoopbackNetwork implements Network {
  readonly kind = 'loopback'
  readonly #options: NetworkOptions
  readonly #ports = new Map<string, { client: number; route: number }>()
  readonly #proxies = new Map<string, LinkProxy>()

  private constructor(options: NetworkOptions) {
    this.#options = options
  }

  static async open(options: NetworkOptions): Promise<LoopbackNetwork> {
    const made = new LoopbackNetwork(options)
    const { servers, parties } = options
    const ports = await freePorts(servers.length * 2)
    for (const [i, server] of servers.entries()) made.#ports.set(server, { client: ports[i * 2] ?? 0, route: ports[i * 2 + 1] ?? 0 })
    for (const to of servers) {
      const { client, route } = made.#at(to)
      for (const from of servers) if (from !== to) made.#proxies.set(`${from} ${to}`, await proxyTo({ host: HOST, port: route }))
      for (const from of parties) made.#proxies.set(`${from} ${to}`, await proxyTo({ host: HOST, port: client }))
    }
    return made
  }

  #at(server: string): { client: number; route: number } {
    const found = this.#ports.get(server)
    if (!found) throw new Error(`there is no server ${server}`)
    return found
  }

  home(server: string): ServerHome {
    const { client, route } = this.#at(server)
    const others = this.#options.servers.filter((one) => one !== server)
    const cluster: ClusterSettings = {
      name: CLUSTER_NAME,
      host: HOST,
      port: route,
      routes: others.map((other) => `nats-route://${HOST}:${this.#proxies.get(`${server} ${other}`)?.port}`),
      advertise: false,
      route_advertise: NOWHERE,
    }
    return { host: HOST, port: client, binary: this.#options.binary, ...(others.length > 0 && { cluster }) }
  }

  servers(party: string): string[] {
    return this.#options.servers.map((server) => {
      const port = this.#proxies.get(`${party} ${server}`)?.port ?? this.#at(server).client
      return `nats://${HOST}:${port}`
    })
  }

  launch(_: string, command: readonly string[]): readonly string[] {
    return command
  }

  async trouble([a, b]: readonly [string, string], how: LinkTrouble): Promise<RestoreLink> {
    const hit = [`${a} ${b}`, `${b} ${a}`].flatMap((way) => this.#proxies.get(way) ?? [])
    for (const proxy of hit) proxy.trouble(how.kind === 'cut' ? { kind: 'silent' } : how)
    return async () => {
      for (const proxy of hit) proxy.mend()
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#proxies.values()].map((one) => one[Symbol.asyncDispose]()))
  }
}

async function freePorts(count: number): Promise<number[]> {
  const held: Server[] = []
  for (let i = 0; i < count; i += 1) {
    const server = createServer()
    await new Promise<void>((listening) => server.listen(0, HOST, listening))
    held.push(server)
  }
  const ports = held.map((server) => (server.address() as { port: number }).port)
  await Promise.all(held.map((server) => new Promise((closed) => server.close(closed))))
  return ports
}
