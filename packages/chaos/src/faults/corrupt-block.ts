import { open, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { type Cluster, type Node, REPLICA_LAG_MESSAGES } from '../cluster/cluster.js'
import { seededRandom } from '../seeded-random.js'
import { pause, waitUntil } from '../wait-for.js'
import { type Fault, InvalidRunError } from './fault.js'

const MAX_FLIPPED_BYTES = 8
const LEADER_CHANGE_TIMEOUT_MS = 60_000

/**
 * Kills a server, flips some bytes in one block of its copy of the stream, and starts it again. The server drops what it can no longer read and the
 * rest of the block, and the other servers do not always repair it (decision 86). After a while its copy is therefore deleted, and it copies
 * everything again, as an operator must do. It is started only once another server leads the stream; otherwise it could be elected leader like any
 * other.
 */
export const corruptBlock: Fault = async (topology, { target, for_ms, salt }, stop) => {
  const node = topology.cluster.node(target)
  const chosen = seededRandom(salt)
  await node.kill()
  const blocks = await blocksIn(join(node.dir, 'jetstream'))
  const isRelieved = await waitUntil(async () => stop.aborted || isAnother(await topology.cluster.leader(), node), {
    deadline_ms: LEADER_CHANGE_TIMEOUT_MS,
  })
  const block = isRelieved && blocks.length > 0 ? chosen.pick(blocks) : undefined
  const bytes = chosen.between(1, MAX_FLIPPED_BYTES)
  if (block) await turnOver(block, bytes, chosen.next())
  const logged = await node.logged()
  await node.start()
  await pause(for_ms, stop)
  // The server was down in any case.
  if (!isRelieved)
    return { done: `kill -9 server ${target}, after which nobody led the stream for ${LEADER_CHANGE_TIMEOUT_MS} ms: nothing was flipped` }
  if (!block) return { done: `kill -9 server ${target}, which has no blocks yet: nothing was flipped` }
  const missing = await missingOf(topology.cluster, node)
  await node.kill()
  // Read from its log, because another server may have copied from it even during a short time as leader.
  const led = await node.ledSince(logged)
  await rm(join(node.dir, 'jetstream'), { recursive: true, force: true })
  await node.start()
  // What the damaged leader told others was lost by the server, not by Passover. A run in which this happened cannot prove anything.
  if (led && missing > REPLICA_LAG_MESSAGES)
    throw new InvalidRunError(`the damaged replica led the stream, with ${missing} messages missing (decision 86)`)
  return {
    done: `${bytes} bytes flipped in ${block.split('/').slice(-3).join('/')} of server ${target}, which was missing ${missing} messages and copied all of them again after ${for_ms} ms`,
  }
}

function isAnother(leader: Node | undefined, than: Node): boolean {
  return leader !== undefined && leader !== than
}

/** Returns the number of messages that this replica lacks compared with the largest one. */
async function missingOf(cluster: Cluster, node: Node): Promise<number> {
  const copies = await cluster.copies()
  const most = Math.max(0, ...Object.values(copies).map((count) => count ?? 0))
  return most - (copies[node.name] ?? most)
}

/** Returns the stream's blocks that are large enough to be damaged, in the order of their names. */
async function blocksIn(dir: string): Promise<string[]> {
  const names = await readdir(dir, { recursive: true }).catch(() => [] as string[])
  const blocks = names.filter((name) => name.endsWith('.blk') && name.includes('streams/PASSOVER/')).sort()
  const sizes = await Promise.all(blocks.map((name) => stat(join(dir, name))))
  return blocks.filter((_, i) => (sizes[i]?.size ?? 0) > MAX_FLIPPED_BYTES).map((name) => join(dir, name))
}

/** Flips a number of consecutive bytes at a relative position from 0 (start of the file) to 1 (end). */
async function turnOver(path: string, bytes: number, place: number): Promise<void> {
  const file = await open(path, 'r+')
  try {
    const { size } = await file.stat()
    const at = Math.floor(place * (size - bytes))
    const held = Buffer.alloc(bytes)
    await file.read(held, 0, bytes, at)
    for (let i = 0; i < bytes; i += 1) held[i] = (held[i] ?? 0) ^ 0xff
    await file.write(held, 0, bytes, at)
    await file.sync()
  } finally {
    await file.close()
  }
}
