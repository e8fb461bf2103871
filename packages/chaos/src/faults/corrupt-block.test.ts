import { appendFile, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Node } from '../cluster/cluster.js'
import type { Network } from '../cluster/network.js'
import type { Topology } from '../cluster/topology.js'
import { corruptBlock } from './corrupt-block.js'

/** Servers without a store, of which each time somebody asks another one leads. */
function topologyOf(leaders: (string | undefined)[]): { topology: Topology; did: string[] } {
  const did: string[] = []
  const named = (name: string) => {
    const say = (what: string) => async () => void did.push(`${what} ${name}`)
    return { name, dir: '/nowhere', logged: async () => 0, kill: say('kill'), start: say('start') } as unknown as Node
  }
  const nodes = new Map(['n1', 'n2', 'n3'].map((name) => [name, named(name)]))
  const cluster = {
    node: (name: string) => nodes.get(name),
    async leader() {
      const name = leaders.length > 1 ? leaders.shift() : leaders[0]
      did.push(`leads: ${name ?? 'nobody'}`)
      return name && nodes.get(name)
    },
  }
  return { topology: { cluster } as unknown as Topology, did }
}

test('a damaged server is started only when another one leads: before that it may be chosen, with messages missing', async () => {
  const { topology, did } = topologyOf([undefined, 'n1', 'n2'])
  const planned = { at_ms: 0, fault: 'flip', target: 'n1', for_ms: 0, salt: 1 } as const
  expect(await corruptBlock(topology, planned, new AbortController().signal)).toEqual({
    done: 'kill -9 server n1, which has no blocks yet: nothing was flipped',
  })
  expect(did).toEqual(['kill n1', 'leads: nobody', 'leads: n1', 'leads: n2', 'start n1'])
})

test('whether a server led the stream since it was started is read from its log', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'passover-flip-'))
  try {
    const node = new Node('n1', { dir, network: {} as Network, settings: {} })
    const say = (what: string) =>
      appendFile(join(dir, 'nats-server.log'), `[4385] 2026/11/30 16:00:45.148258 [INF] JetStream cluster new ${what}\n`)
    await say("stream leader for '$G > PASSOVER'")
    const logged = await node.logged()
    await say("stream leader for '$G > KV_policy'")
    await say("consumer leader for '$G > PASSOVER > dispatcher'")
    expect(await node.ledSince(logged)).toBe(false)
    await say("stream leader for 'CORE > PASSOVER'")
    expect(await node.ledSince(logged)).toBe(true)
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
})
