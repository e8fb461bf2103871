import { setPriority } from 'node:os'
import { AckPolicy, DeliverPolicy, jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect, headers, type Msg, type NatsConnection } from '@nats-io/transport-node'
import { drive, READER_NICENESS, serveRole } from '../measure/harness.js'

/**
 * The yardstick: the three hops of a pass on the bare client, with everything a pass owes its promises
 * (guarded steps, all acknowledged, a headers-only reader and a reader of everything beside it) and nothing else:
 * no validation, no chain, no policy, no codec.
 */

interface Options {
  role: 'originator' | 'dispatcher' | 'worker' | 'audit'
  servers: string
  instance: string
}

const STREAM = 'RAW'
const SETTLE_MS = 20
const BODY = new TextEncoder().encode('x'.repeat(400))
const EXPECT = 'Nats-Expected-Last-Subject-Sequence'
const EXPECT_SUBJECT = 'Nats-Expected-Last-Subject-Sequence-Subject'

/** Publishes with one own ack inbox; resolves with the sequence. */
function publisher(nc: NatsConnection) {
  const inbox = `_R.${Math.random().toString(36).slice(2)}`
  const waiting = new Map<string, (sequence: number) => void>()
  let n = 0
  nc.subscribe(`${inbox}.*`, {
    callback: (_, msg) => {
      const token = msg.subject.slice(inbox.length + 1)
      const { seq } = JSON.parse(msg.string()) as { seq?: number }
      waiting.get(token)?.(seq ?? 0)
      waiting.delete(token)
    },
  })
  return (subject: string, data: Uint8Array, guard?: { subject: string; sequence: number }) =>
    new Promise<number>((resolve) => {
      const token = String(++n)
      waiting.set(token, resolve)
      const reply = `${inbox}.${token}`
      if (!guard) {
        nc.publish(subject, data, { reply })
        return
      }
      const h = headers()
      h.set(EXPECT, String(guard.sequence))
      h.set(EXPECT_SUBJECT, guard.subject)
      nc.publish(subject, data, { reply, headers: h })
    })
}

async function ensure(nc: NatsConnection) {
  const jsm = await jetstreamManager(nc)
  await jsm.streams.add({
    name: STREAM,
    subjects: ['request.*.*', 'work.*.*.*.*', 'return.*.*.*.*'],
    allow_direct: true,
    republish: { src: 'return.*.*.*.*', dest: 'returned.{{wildcard(1)}}.{{splitfromleft(3,8)}}.{{wildcard(2)}}.{{wildcard(4)}}' },
  })
  for (const [name, filter] of [
    ['dispatcher', 'request.>'],
    ['worker', 'work.*.audit.*.medium'],
  ] as const)
    await jsm.consumers.add(STREAM, { durable_name: name, filter_subject: filter, ack_policy: AckPolicy.Explicit, max_ack_pending: 4096 })
}

/** Reads everything; the function that comes back waits until it has. */
async function read(nc: NatsConnection, headersOnly: boolean): Promise<() => Promise<void>> {
  const consumer = await jetstream(nc).consumers.get(STREAM, { deliver_policy: DeliverPolicy.All, headers_only: headersOnly })
  let count = 0
  const callback = () => {
    count += 1
  }
  await consumer.consume({ max_messages: 2000, callback })
  const { streams } = await jetstreamManager(nc)
  return async () => {
    const { state } = await streams.info(STREAM)
    while (count < state.messages) await new Promise((done) => setTimeout(done, SETTLE_MS))
  }
}

await serveRole<Options>(async ({ role, servers, instance }) => {
  const nc = await connect({ servers, noAsyncTraces: true })
  const publish = publisher(nc)
  if (role === 'dispatcher') {
    await ensure(nc)
    await read(nc, true)
    const consumer = await jetstream(nc).consumers.get(STREAM, 'dispatcher')
    await consumer.consume({
      max_messages: 1024,
      callback: (msg) => {
        const [, subagent, originator] = msg.subject.split('.')
        const id = new TextDecoder().decode(msg.data.subarray(0, 32))
        void publish(`work.${originator}.${subagent}.${id}.medium`, msg.data, {
          subject: `*.${originator}.${subagent}.${id}.*`,
          sequence: 0,
        }).then(() => msg.ack())
      },
    })
  }
  if (role === 'worker') {
    const consumer = await jetstream(nc).consumers.get(STREAM, 'worker')
    await consumer.consume({
      max_messages: 1024,
      callback: (msg) => {
        const [, originator, subagent, id] = msg.subject.split('.')
        void publish(`return.${originator}.${subagent}.${id}.${subagent}`, msg.data, {
          subject: `*.${originator}.${subagent}.${id}.*`,
          sequence: msg.seq,
        }).then(() => msg.ack())
      },
    })
  }
  if (role === 'audit') setPriority(READER_NICENESS)
  const settle = role === 'audit' ? await read(nc, false) : undefined
  const open = new Map<string, () => void>()
  if (role === 'originator')
    nc.subscribe(`returned.alice.0${instance}.>`, {
      callback: (_, msg: Msg) => {
        const rest = msg.subject.split('.')[3] ?? ''
        open.get(rest)?.()
        open.delete(rest)
      },
    })
  let n = 0
  const one = () => {
    const rest = `${Date.now().toString(36).padStart(9, '0')}_${String(++n).padStart(14, '0')}`
    const body = new Uint8Array(BODY.length)
    body.set(BODY)
    body.set(new TextEncoder().encode(`0${instance}${rest}`))
    return new Promise<void>((resolve) => {
      open.set(rest, resolve)
      void publish('request.audit.alice', body)
    })
  }
  await nc.flush()
  return (command) => settle?.() ?? drive(one, command as never)
})
