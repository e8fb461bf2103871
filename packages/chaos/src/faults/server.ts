import type { Node } from '../cluster/cluster.js'
import { pause } from '../wait-for.js'
import type { Fault } from './fault.js'

/** kill -9 of one server, and its start after a while. */
export const serverKill: Fault = async (arena, { target, for_ms }, stop) => {
  await away(arena.cluster.node(target), for_ms, stop)
  return { done: `kill -9 server ${target} for ${for_ms} ms` }
}

/** kill -9 of the server that leads the stream. */
export const leaderKill: Fault = async (arena, { for_ms }, stop) => {
  const leader = await arena.cluster.leader()
  if (!leader) return { skipped: 'nobody leads the stream' }
  await away(leader, for_ms, stop)
  return { done: `kill -9 server ${leader.name}, which led the stream, for ${for_ms} ms` }
}

async function away(node: Node, for_ms: number, stop: AbortSignal): Promise<void> {
  await node.kill()
  await pause(for_ms, stop)
  await node.start()
}

/** SIGSTOP of one server: connections stay open and nobody answers. */
export const serverFreeze: Fault = async (arena, { target, for_ms }, stop) => {
  const node = arena.cluster.node(target)
  node.freeze()
  await pause(for_ms, stop)
  node.thaw()
  return { done: `SIGSTOP server ${target} for ${for_ms} ms` }
}

/** A restart in good order (SIGTERM). */
export const serverRestart: Fault = async (arena, { target, for_ms }, stop) => {
  const node = arena.cluster.node(target)
  await node.stop()
  await pause(for_ms, stop)
  await node.start()
  return { done: `restart server ${target}` }
}

/** kill -9 of all servers at the same time. */
export const outage: Fault = async ({ cluster }, { for_ms }, stop) => {
  await Promise.all(cluster.nodes.map((node) => node.kill()))
  await pause(for_ms, stop)
  await Promise.all(cluster.nodes.map((node) => node.start()))
  return { done: `kill -9 all servers for ${for_ms} ms` }
}

/** A server that cannot write turns its JetStream off; when there is room again, it is started again, as whoever runs it would. */
export const diskFull: Fault = async (arena, { target, for_ms }, stop) => {
  if (arena.disks.means === 'none') return { skipped: 'no disk can be filled here' }
  const node = arena.cluster.node(arena.disks.victim(target))
  if (node.pid === undefined) return { skipped: `server ${node.name} does not run` }
  const free = await arena.disks.fill(node.name, node.pid)
  await pause(for_ms, stop)
  await node.kill()
  await free()
  await node.start()
  return { done: `disk of server ${node.name} full for ${for_ms} ms (${arena.disks.means})` }
}
