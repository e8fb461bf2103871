import type { LinkTrouble } from '../cluster/network.js'
import type { Topology } from '../cluster/topology.js'
import { seededRandom } from '../seeded-random.js'
import { pause } from '../wait-for.js'
import type { Fault } from './fault.js'

const DELAY_MS = { least: 20, most: 150 }
const BYTES_PER_S = { least: 40_000, most: 400_000 }

/** Silently drops all traffic between a server and other ends. */
export const partition: Fault = async (topology, { target, for_ms }, stop) => {
  const [one, others] = endsOf(target)
  await hold(topology, [one, others], { how: { kind: 'cut' }, for_ms, stop })
  return { done: `partition ${one} | ${others.join(', ')} for ${for_ms} ms` }
}

/** Adds delay to a link and limits its throughput. */
export const slow: Fault = async (topology, { target, for_ms, salt }, stop) => {
  if (topology.network.kind === 'namespaces' && topology.options.shaping === 'none') return { skipped: 'no traffic can be slowed here' }
  const [one, others] = endsOf(target)
  const chosen = seededRandom(salt)
  const delay_ms = chosen.between(DELAY_MS.least, DELAY_MS.most)
  const bytes_per_s = chosen.between(BYTES_PER_S.least, BYTES_PER_S.most)
  // In namespaces all outgoing traffic of the server is slowed, so once is enough.
  const slowed = topology.network.kind === 'namespaces' ? others.slice(0, 1) : others
  await hold(topology, [one, slowed], { how: { kind: 'slow', delay_ms, bytes_per_s }, for_ms, stop })
  return { done: `slow ${one} – ${others.join(', ')} (${delay_ms} ms, ${Math.round(bytes_per_s / 1_000)} kB/s) for ${for_ms} ms` }
}

async function hold(
  { network }: Topology,
  [one, others]: [string, string[]],
  { how, for_ms, stop }: { how: LinkTrouble; for_ms: number; stop: AbortSignal },
): Promise<void> {
  const mends = []
  for (const other of others) mends.push(await network.trouble([one, other], how))
  await pause(for_ms, stop)
  for (const mend of mends) await mend()
}

function endsOf(target: string): [string, string[]] {
  const [one = '', others = ''] = target.split(' ')
  return [one, others.split('+')]
}
