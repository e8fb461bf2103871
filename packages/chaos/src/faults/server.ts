import type { Node } from '../cluster/cluster.js'
import { pause } from '../wait-for.js'
import type { Fault } from './fault.js'

/** Kills one server with SIGKILL and starts it again after a while. */
export const serverKill: Fault = async (topology, { target, for_ms }, stop) => {
  await away(topology.cluster.node(target), for_ms, stop)
  return { done: `kill -9 server ${target} for ${for_ms} ms` }
}

/** Kills the server that leads the stream with SIGKILL and starts it again after a while. */
export const leaderKill: Fault = async (topology, { for_ms }, stop) => {
  const leader = await topology.cluster.leader()
  if (!leader) return { skipped: 'nobody leads the stream' }
  await away(leader, for_ms, stop)
  return { done: `kill -9 server ${leader.name}, which led the stream, for ${for_ms} ms` }
}

async function away(node: Node, for_ms: number, stop: AbortSignal): Promise<void> {
  await node.kill()
  await pause(for_ms, stop)
  await node.start()
}

/** Freezes one server with SIGSTOP: its connections stay open, but it does not answer. */
export const serverFreeze: Fault = async (topology, { target, for_ms }, stop) => {
  const node = topology.cluster.node(target)
  node.freeze()
  await pause(for_ms, stop)
  node.thaw()
  return { done: `SIGSTOP server ${target} for ${for_ms} ms` }
}

/** Restarts a server gracefully (SIGTERM). */
export const serverRestart: Fault = async (topology, { target, for_ms }, stop) => {
  const node = topology.cluster.node(target)
  await node.stop()
  await pause(for_ms, stop)
  await node.start()
  return { done: `restart server ${target}` }
}

/** Kills all servers with SIGKILL at the same time. */
export const outage: Fault = async ({ cluster }, { for_ms }, stop) => {
  await Promise.all(cluster.nodes.map((node) => node.kill()))
  await pause(for_ms, stop)
  await Promise.all(cluster.nodes.map((node) => node.start()))
  return { done: `kill -9 all servers for ${for_ms} ms` }
}

/**
 * Fills the disk of a server. A server that cannot write disables JetStream, so it is restarted once there is space again, as an operator would do.
 */
export const diskFull: Fault = async (topology, { target, for_ms }, stop) => {
  if (topology.disks.means === 'none') return { skipped: 'no disk can be filled here' }
  const node = topology.cluster.node(topology.disks.victim(target))
  if (node.pid === undefined) return { skipped: `server ${node.name} does not run` }
  const free = await topology.disks.fill(node.name, node.pid)
  await pause(for_ms, stop)
  await node.kill()
  await free()
  await node.start()
  return { done: `disk of server ${node.name} full for ${for_ms} ms (${topology.disks.means})` }
}
