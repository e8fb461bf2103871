import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import type { Bus, FollowOptions, StoredMessage, StreamSubscription } from '@passover/bus'
import type { Fact } from '@passover/schemas'
import { replaced } from '../fixtures/audit.js'
import { until } from '../processes/until.js'
import type { NatsFixture, NatsNode } from './nats.js'

const STREAM = 'PASSOVER'

interface Jsz {
  account_details?: { stream_detail?: { name: string; state: { messages: number }; consumer_detail?: { name: string }[] }[] }[]
}

/** A cluster of which one server's copy of the stream lacks messages, and the server does not know it. */
export interface Gapped {
  /** The same bus, whose readers of the stream are first served by the server that lacks messages. */
  served(bus: Bus): Bus
  /** Makes that server lead a durable: it then delivers from its own copy. */
  leads(durable: string): Promise<void>
  /** How many messages its copy has. */
  messages(): Promise<number>
}

/**
 * Stops a follower, deletes the block of its store that has `marker` in it, and starts it again. The server reads its other blocks, takes the
 * missing sequences for deleted, and says that its copy is current: it is compared with the leader's by its last sequence only.
 */
export async function withGap(nats: NatsFixture, marker: string): Promise<Gapped> {
  const nc = await connect({ servers: nats.servers })
  try {
    const manager = await jetstreamManager(nc)
    const leader = (await manager.streams.info(STREAM)).cluster?.leader
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
  } finally {
    await nc.close()
  }
}

/** Counts messages on a subject until the count is asked for. */
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
  const files = await readdir(dir, { recursive: true })
  for (const file of files.filter((name) => name.includes(`streams/${STREAM}/msgs/`) && name.endsWith('.blk'))) {
    const path = join(dir, file)
    if ((await readFile(path)).includes(marker)) return path
  }
  throw new Error(`no block has ${marker}`)
}

async function streamOn({ monitor }: NatsNode) {
  const answer = await fetch(new URL('/jsz?accounts=1&streams=1&consumers=1', monitor))
  const { account_details = [] } = (await answer.json()) as Jsz
  return account_details.flatMap(({ stream_detail = [] }) => stream_detail).find(({ name }) => name === STREAM)
}

/** Names of the readers' consumers on a server. They have one replica, so that they are on no other. */
async function readersOn(node: NatsNode): Promise<Set<string>> {
  const names = (await streamOn(node))?.consumer_detail?.map(({ name }) => name) ?? []
  return new Set(names.filter((name) => name.startsWith('read_')))
}

/** The server places a reader's consumer by chance: one that it places elsewhere is closed before it hands anything on, and opened again. */
function servedBy(node: NatsNode, bus: Bus): Bus {
  // One after the other: a consumer that is new on the server is then the one that was just made.
  let last: Promise<unknown> = Promise.resolve()
  const oneByOne = <T>(open: () => Promise<T>): Promise<T> => {
    const opened = last.then(open)
    last = opened.catch(() => undefined)
    return opened
  }
  return replaced(bus, {
    follow: (options: FollowOptions, onMessage: (stored: StoredMessage, fact: Fact) => void | Promise<void>) =>
      oneByOne(async (): Promise<StreamSubscription> => {
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
      }),
  })
}

async function leads(nats: NatsFixture, durable: string, node: NatsNode): Promise<void> {
  const nc = await connect({ servers: nats.servers })
  try {
    const manager = await jetstreamManager(nc)
    const preferred = JSON.stringify({ placement: { preferred: node.name } })
    await until(
      async () => {
        if ((await manager.consumers.info(STREAM, durable)).cluster?.leader === node.name) return true
        await nc.request(`$JS.API.CONSUMER.LEADER.STEPDOWN.${STREAM}.${durable}`, preferred, { timeout: 2_000 })
        return false
      },
      { what: `${node.name} leads ${durable}`, deadline_ms: 30_000 },
    )
  } finally {
    await nc.close()
  }
}
