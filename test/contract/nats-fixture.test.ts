import { type JetStreamClient, type JetStreamManager, jetstream, jetstreamManager, StorageType } from '@nats-io/jetstream'
import { connect, headers, type NatsConnection } from '@nats-io/transport-node'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { until } from '../support/processes/until.js'
import { dockerMissing } from '../support/servers/docker.js'
import { type Maker, type NatsFixture, natsFixture } from '../support/servers/nats.js'

/**
 * What the rest relies on a server for, run against each maker of fixtures and each size: what holds in a local process must
 * hold in a container, and what holds for one node in a cluster.
 */

const GUARD = { sequence: 'Nats-Expected-Last-Subject-Sequence', subject: 'Nats-Expected-Last-Subject-Sequence-Subject' }

interface Client extends AsyncDisposable {
  nc: NatsConnection
  js: JetStreamClient
  jsm: JetStreamManager
}

async function client(nats: NatsFixture, name: string): Promise<Client> {
  const nc = await connect({
    servers: nats.servers,
    name,
    maxReconnectAttempts: -1,
    reconnectTimeWait: 100,
    timeout: 5_000,
    noAsyncTraces: true,
  })
  return { nc, js: jetstream(nc), jsm: await jetstreamManager(nc), [Symbol.asyncDispose]: () => nc.close() }
}

/** Publishes a step under a guard; the sequence, or undefined when the server refused. */
async function step(js: JetStreamClient, subject: string, guard: { subject: string; sequence: number }): Promise<number | undefined> {
  const head = headers()
  head.set(GUARD.sequence, String(guard.sequence))
  head.set(GUARD.subject, guard.subject)
  try {
    // A node of a cluster may hear of a new stream a moment later than its maker: no responders is then no refusal.
    return (await js.publish(subject, 'x', { headers: head, retries: 20 })).seq
  } catch (error) {
    if (/wrong last sequence/i.test(String(error))) return undefined
    throw error
  }
}

const variants: { maker: Maker; nodes: 1 | 3 }[] = [
  { maker: 'process', nodes: 1 },
  { maker: 'process', nodes: 3 },
  { maker: 'container', nodes: 1 },
  { maker: 'container', nodes: 3 },
]

for (const { maker, nodes } of variants) {
  const missing = maker === 'container' ? dockerMissing() : undefined
  describe.skipIf(missing)(`${nodes} ${nodes === 1 ? 'node' : 'nodes'} by ${maker}${missing ? ` (left out: ${missing})` : ''}`, () => {
    let nats: NatsFixture
    let user: Client

    beforeAll(async () => {
      nats = await natsFixture({ maker, nodes })
      user = await client(nats, 'contract')
      await user.jsm.streams.add({
        name: 'S',
        subjects: ['work.>', 'return.>', 'fence.>', 'held.>'],
        storage: StorageType.File,
        num_replicas: nodes,
        allow_direct: true,
        republish: { src: 'return.*.*.*.*', dest: 'returned.{{wildcard(1)}}.{{splitfromleft(3,8)}}.{{wildcard(2)}}.{{wildcard(4)}}' },
      })
    })
    afterAll(async () => {
      await user?.[Symbol.asyncDispose]()
      await nats?.[Symbol.asyncDispose]()
    })

    it('takes the step after the one before, and refuses every other', async () => {
      const journal = '*.alice.audit.guarded01.*'
      const work = await step(user.js, 'work.alice.audit.guarded01.high', { subject: journal, sequence: 0 })
      expect(work).toBeGreaterThan(0)
      expect(await step(user.js, 'work.alice.audit.guarded01.low', { subject: journal, sequence: 0 })).toBeUndefined()
      const back = await step(user.js, 'return.alice.audit.guarded01.audit', { subject: journal, sequence: work ?? 0 })
      expect(back).toBe((work ?? 0) + 1)
      expect(await step(user.js, 'return.alice.audit.guarded01.passover', { subject: journal, sequence: work ?? 0 })).toBeUndefined()
    })

    it('lets exactly one of fifty rivals begin a journal', async () => {
      const tries = Array.from({ length: 50 }, (_, i) =>
        step(user.js, `work.alice.audit.rivals001.w${i}`, { subject: '*.alice.audit.rivals001.*', sequence: 0 }),
      )
      const won = (await Promise.all(tries)).filter((sequence) => sequence !== undefined)
      expect(won).toHaveLength(1)
    })

    it('republishes what it stored, with the id split, and its own headers last', async () => {
      const heard = new Promise<{ subject: string; stream: string | undefined; forged: string[] }>((resolve) => {
        user.nc.subscribe('returned.alice.>', {
          max: 1,
          callback: (_, message) =>
            resolve({
              subject: message.subject,
              stream: message.headers?.last('Nats-Stream'),
              forged: message.headers?.values('Nats-Sequence') ?? [],
            }),
        })
      })
      await user.nc.flush()
      const head = headers()
      head.set('Nats-Sequence', '999')
      const { seq } = await user.js.publish('return.alice.audit.0abcdefg0123.audit', 'x', { headers: head })
      expect(await heard).toEqual({ subject: 'returned.alice.0abcdefg.0123.audit.audit', stream: 'S', forged: ['999', String(seq)] })
    })

    it('answers direct gets for exact subjects, and leader reads', async () => {
      const { seq } = await user.js.publish('work.alice.audit.direct0001.high', 'body')
      const direct = await until(() => user.jsm.direct.getMessage('S', { last_by_subj: 'work.alice.audit.direct0001.high' }), {
        what: 'the direct get finds it',
      })
      expect([direct.seq, direct.string()]).toEqual([seq, 'body'])
      expect(await user.jsm.direct.getMessage('S', { last_by_subj: 'work.alice.audit.nothing01.high' })).toBeNull()
      expect((await user.jsm.streams.getMessage('S', { seq }))?.string()).toBe('body')
    })

    it('keeps what it acknowledged over a restart and over kill -9, under the same address', async () => {
      const [node] = nats.nodes
      if (!node) throw new Error('no node')
      const { seq: first } = await user.js.publish('work.alice.audit.restart001.high', 'one')
      await node.restart()
      await nats.untilSettled()
      const second = await published(user, 'work.alice.audit.restart001.low', 'two')
      expect(second).toBeGreaterThan(first)
      await node.kill()
      expect(node.running).toBe(false)
      await node.restart()
      await nats.untilSettled()
      await reconnected(user)
      const found = await until(() => user.jsm.streams.getMessage('S', { seq: second }), {
        what: 'the stream is back',
        deadline_ms: 30_000,
      })
      expect(found.string()).toBe('two')
      expect((await user.jsm.streams.getMessage('S', { seq: first }))?.string()).toBe('one')
    })

    it('freezes and goes on', async () => {
      const all = nats.nodes
      await Promise.all(all.map((node) => node.pause()))
      const flushed = user.nc.flush().then(() => 'answered')
      const patience = new Promise((resolve) => setTimeout(() => resolve('frozen'), 300))
      expect(await Promise.race([flushed, patience])).toBe('frozen')
      await Promise.all(all.map((node) => node.resume()))
      expect(await flushed).toBe('answered')
      await nats.untilSettled()
    })

    it('names what a client leaves behind', async () => {
      const before = await nats.census()
      const other = await client(nats, 'leaver')
      other.nc.subscribe('left.behind')
      await other.nc.flush()
      const seen = (await nats.census()).notIn(before)
      expect(seen).toContain('connection leaver (nobody)')
      expect(seen).toContain('subscription left.behind')
      await expect(nats.untilNothingLeft(before, 100)).rejects.toThrow(/left\.behind/)
      await other[Symbol.asyncDispose]()
      await nats.untilNothingLeft(before)
    })

    // One node has nobody to go on with.
    if (nodes === 1) return
    it('goes on after the loss of one node, and that one catches up', async () => {
      const info = await user.jsm.streams.info('S')
      const leader = nats.nodes.find((node) => node.name === info.cluster?.leader)
      if (!leader) throw new Error('no leader')
      await leader.kill()
      const sequence = await published(user, 'work.alice.audit.survive001.high', 'alive')
      await leader.restart()
      await nats.untilSettled()
      const caughtUp = await until(
        async () => {
          const { cluster, state } = await user.jsm.streams.info('S')
          return state.last_seq >= sequence && cluster?.replicas?.every((replica) => replica.current && !replica.offline)
        },
        { what: 'all replicas are current', deadline_ms: 30_000 },
      )
      expect(caughtUp).toBe(true)
    })
  })
}

/** Publishes until the servers answer; while a cluster has no leader they don't. */
async function published(user: Client, subject: string, body: string): Promise<number> {
  await reconnected(user)
  return until(async () => (await user.js.publish(subject, body, { timeout: 2_000, retries: 1 })).seq, {
    what: `${subject} is stored`,
    deadline_ms: 30_000,
    every_ms: 100,
  })
}

function reconnected(user: Client): Promise<number> {
  return until(() => user.nc.rtt(), { what: 'the client is connected again', deadline_ms: 30_000 })
}
