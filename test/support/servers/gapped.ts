import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { connect } from '@nats-io/transport-node'
import type { Bus } from '@passover/bus'
import { byHand } from '../attacks/broken-topology.js'
import { replaced } from '../fixtures/audit.js'
import { storedFiles } from '../fixtures/erasure.js'
import { until } from '../processes/until.js'
import type { NatsFixture, NatsNode } from './nats.js'

const STREAM = 'PASSOVER'

interface Jsz {
  account_details?: { stream_detail?: { name: string; state: { messages: number }; consumer_detail?: { name: string }[] }[] }[]
}

/** A cluster in which one server's copy of the stream lacks messages without the server noticing. */
export interface Gapped {
  /** Returns the same bus, but its readers of the stream are first served by the server that lacks messages. */
  served(bus: Bus): Bus
  /** Makes that server the leader of a durable consumer, so that it delivers from its own copy. */
  leads(durable: string): Promise<void>
  /** Returns the number of messages in its copy. */
  messages(): Promise<number>
}

/**
 * Stops a follower, deletes the block of its store that contains `marker`, and starts it again. The server reads its other blocks, takes the missing
 * sequences for deleted, and reports its copy as current, because only the last sequence is compared with the leader's.
 */
export async function withGap(nats: NatsFixture, marker: string): Promise<Gapped> {
  const leader = await byHand(nats.servers, async ({ streams }) => (await streams.info(STREAM)).cluster?.leader)
  const victim = nats.nodes.find(({ name }) => name !== leader)
  if (!victim?.dir) throw new Error('no server follows')
  await victim.stop()
  await rm(await blockWith(victim.dir, marker))
  await victim.restart()
  await nats.untilSettled()
  return {
    served: (bus) => servedBy(victim, bus),
    leads: (durable) => leads(nats, durable, victim),
    messages: async () => (await streamOn(victim))?.state.messages ?? 0,
  }
}

/** Counts the messages on a subject until the returned function is called, which returns the count. */
export async function countedOn({ servers }: NatsFixture, subject: string): Promise<() => Promise<number>> {
  const nc = await connect({ servers })
  const heard = nc.subscribe(subject)
  await nc.flush()
  return async () => {
    await nc.flush()
    const count = heard.getReceived()
    await nc.close()
    return count
  }
}

async function blockWith(dir: string, marker: string): Promise<string> {
  const files = await storedFiles(dir, marker)
  const block = files.find((name) => name.includes(`streams/${STREAM}/msgs/`) && name.endsWith('.blk'))
  if (!block) throw new Error(`no block has ${marker}`)
  return join(dir, block)
}

async function streamOn({ monitor }: NatsNode) {
  const answer = await fetch(new URL('/jsz?accounts=1&streams=1&consumers=1', monitor))
  const { account_details = [] } = (await answer.json()) as Jsz
  return account_details.flatMap(({ stream_detail = [] }) => stream_detail).find(({ name }) => name === STREAM)
}

/** Returns the names of the readers' consumers on a server. Each has one replica, so it is on no other server. */
async function readersOn(node: NatsNode): Promise<Set<string>> {
  const names = (await streamOn(node))?.consumer_detail?.map(({ name }) => name) ?? []
  return new Set(names.filter((name) => name.startsWith('read_')))
}

/**
 * Opens readers until one is placed on the server, which the cluster decides at random. A reader that is placed elsewhere is closed before it delivers
 * anything.
 */
function servedBy(node: NatsNode, bus: Bus): Bus {
  const follow = async (...[options, onMessage]: Parameters<Bus['follow']>) => {
    for (;;) {
      const before = await readersOn(node)
      let begin: () => void = () => undefined
      const begun = new Promise<void>((resolve) => {
        begin = resolve
      })
      const reader = await bus.follow(options, (stored, fact) => begun.then(() => onMessage(stored, fact)))
      if ([...(await readersOn(node))].some((name) => !before.has(name))) {
        begin()
        return reader
      }
      await reader[Symbol.asyncDispose]()
    }
  }
  // Only one reader is opened at a time, so that a consumer that is new on the server is its own.
  let last: Promise<unknown> = Promise.resolve()
  return replaced(bus, {
    follow: (...args: Parameters<Bus['follow']>) => {
      const opened = last.then(() => follow(...args))
      last = opened.catch(() => undefined)
      return opened
    },
  })
}

function leads({ servers }: NatsFixture, durable: string, node: NatsNode): Promise<void> {
  const preferred = JSON.stringify({ placement: { preferred: node.name } })
  return byHand(servers, ({ consumers }, nc) =>
    until(
      async () => {
        if ((await consumers.info(STREAM, durable)).cluster?.leader === node.name) return true
        await nc.request(`$JS.API.CONSUMER.LEADER.STEPDOWN.${STREAM}.${durable}`, preferred, { timeout: 2_000 })
        return false
      },
      { what: `${node.name} leads ${durable}`, deadline_ms: 30_000 },
    ).then(() => undefined),
  )
}
