import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { waitUntil } from '../wait-for.js'
import { CLUSTER_NAME, type LinkTrouble, type Network, type NetworkOptions, type RestoreLink, type ServerHome } from './network.js'

const run = promisify(execFile)
const BRIDGE = 'chaos0'
const SUBNET = '10.77.0'
const CLIENT_PORT = 4222
const ROUTE_PORT = 6222

/**
 * Network in which each server and each party has a network namespace of its own, joined by a bridge. The runner is in a namespace that it shares
 * with no other process (see namespace-sandbox.ts), so that nothing is visible or reachable from outside. A cut link loses packets, as a real one
 * does.
 */
export class NamespaceNetwork implements Network {
  readonly kind = 'namespaces'
  readonly #options: NetworkOptions
  readonly #rooms = new Map<string, { room: ChildProcess; pid: number; address: string }>()

  private constructor(options: NetworkOptions) {
    this.#options = options
  }

  static async open(options: NetworkOptions): Promise<NamespaceNetwork> {
    const made = new NamespaceNetwork(options)
    await ip(`link set lo up`)
    await ip(`link add ${BRIDGE} type bridge`)
    await ip(`addr add ${SUBNET}.254/24 dev ${BRIDGE}`)
    await ip(`link set ${BRIDGE} up`)
    for (const [i, name] of [...options.servers, ...options.parties].entries()) await made.#build(name, i + 1)
    for (const server of options.servers) await made.#script(server)
    return made
  }

  async #build(name: string, number: number): Promise<void> {
    // The namespace exists as long as this process runs in it. The process exits with the runner, when its input is closed.
    const room = spawn('unshare', ['-n', '--', 'cat'], { stdio: ['pipe', 'ignore', 'ignore'] })
    const pid = room.pid ?? 0
    const own = async () => {
      const { stdout } = await run('readlink', [`/proc/${pid}/ns/net`, '/proc/self/ns/net'])
      const [there, here] = stdout.trim().split('\n')
      return there !== undefined && there !== here
    }
    if (!(await waitUntil(own, { deadline_ms: 10_000, every_ms: 10 }))) throw new Error(`no network namespace could be made for ${name}`)
    const address = `${SUBNET}.${number}`
    this.#rooms.set(name, { room, pid, address })
    await ip(`link add chaos${number} type veth peer name eth0 netns ${pid}`)
    await ip(`link set chaos${number} master ${BRIDGE} up`)
    await this.#in(name, 'ip link set lo up')
    await this.#in(name, `ip addr add ${address}/24 dev eth0`)
    await this.#in(name, 'ip link set eth0 up')
  }

  #room(name: string): { pid: number; address: string } {
    const found = this.#rooms.get(name)
    if (!found) throw new Error(`there is no ${name}`)
    return found
  }

  async #in(name: string, command: string): Promise<void> {
    await run('nsenter', ['-t', String(this.#room(name).pid), '-n', ...command.split(' ')])
  }

  /** Writes the script that runs nats-server in a server's namespace. */
  async #script(server: string): Promise<void> {
    const path = this.#scriptOf(server)
    await writeFile(path, `#!/bin/sh\nexec nsenter -t ${this.#room(server).pid} -n '${this.#options.binary}' "$@"\n`)
    await chmod(path, 0o755)
  }

  #scriptOf(server: string): string {
    return join(this.#options.dir, `nats-server-${server}`)
  }

  home(server: string): ServerHome {
    const host = this.#room(server).address
    const others = this.#options.servers.filter((one) => one !== server)
    const routes = others.map((other) => `nats-route://${this.#room(other).address}:${ROUTE_PORT}`)
    return {
      host,
      port: CLIENT_PORT,
      binary: this.#scriptOf(server),
      ...(others.length > 0 && { cluster: { name: CLUSTER_NAME, host, port: ROUTE_PORT, routes, advertise: false } }),
    }
  }

  servers(): string[] {
    return this.#options.servers.map((server) => `nats://${this.#room(server).address}:${CLIENT_PORT}`)
  }

  launch(party: string, command: readonly string[]): readonly string[] {
    return ['nsenter', '-t', String(this.#room(party).pid), '-n', ...command]
  }

  async trouble([a, b]: readonly [string, string], how: LinkTrouble): Promise<RestoreLink> {
    return how.kind === 'cut' ? this.#cut(a, b) : this.#slow(a, b, how)
  }

  /** Drops the packets that each end sends to the other. */
  async #cut(a: string, b: string): Promise<RestoreLink> {
    const ways = [[a, this.#room(b).address] as const, [b, this.#room(a).address] as const]
    for (const [from, to] of ways) await this.#in(from, `ip route add blackhole ${to}/32`)
    return async () => {
      for (const [from, to] of ways) await this.#in(from, `ip route del blackhole ${to}/32`)
    }
  }

  /** Slows everything that the first end sends: by netem if the kernel has it, otherwise by limiting its throughput only. */
  async #slow(a: string, _: string, { delay_ms, bytes_per_s }: { delay_ms: number; bytes_per_s: number }): Promise<RestoreLink> {
    const rate = Math.round((bytes_per_s * 8) / 1_000)
    try {
      await this.#in(a, `tc qdisc add dev eth0 root netem delay ${delay_ms}ms ${Math.round(delay_ms / 4)}ms rate ${rate}kbit`)
    } catch {
      await this.#in(a, `tc qdisc add dev eth0 root tbf rate ${rate}kbit burst 16kb latency ${Math.max(50, delay_ms)}ms`)
    }
    return () => this.#in(a, 'tc qdisc del dev eth0 root')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { room } of this.#rooms.values()) room.kill('SIGKILL')
  }
}

async function ip(command: string): Promise<void> {
  await run('ip', command.split(' '))
}
