import { pause } from '../wait.js'
import type { Fault } from './fault.js'

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
