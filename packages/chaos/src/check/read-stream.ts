import { type JsMsg, jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect, type MsgHdrs, type NatsConnection } from '@nats-io/transport-node'
import { withTimeout } from '../wait-for.js'
import type { Evidence } from './archive.js'
import { judge } from './judge.js'
import type { CheckerOptions, Judgement, StoredMessage } from './types.js'

const READ_TIMEOUT_MS = 300_000
const POLL_INTERVAL_MS = 200

/** Reads a whole stream from its first message and judges it by the server's clock. */
export async function checkStream(
  servers: string | string[],
  options: CheckerOptions & { user?: string; pass?: string } = {},
): Promise<Judgement> {
  const nc = await connect({ servers, name: 'checker', ...(options.user ? { user: options.user, pass: options.pass ?? '' } : {}) })
  try {
    const { records, now } = await readStream(nc, options.stream ?? 'PASSOVER')
    return judge(records, now, options)
  } finally {
    await nc.close()
  }
}

/** Reads all messages of a stream, and the server's time in milliseconds. */
export async function readStream(nc: NatsConnection, stream: string): Promise<{ records: StoredMessage[]; now: number }> {
  const jsm = await jetstreamManager(nc)
  const info = await jsm.streams.info(stream)
  const records = info.state.messages === 0 ? [] : await withTimeout(readAll(nc, stream), `the checker reads ${stream}`, READ_TIMEOUT_MS)
  return { records, now: Date.parse((info as unknown as { ts: string }).ts) }
}

async function readAll(nc: NatsConnection, stream: string): Promise<StoredMessage[]> {
  const consumer = await jetstream(nc).consumers.get(stream)
  const records: StoredMessage[] = []
  let stop = () => {}
  let delivered = 0
  let looking: NodeJS.Timeout | undefined
  await new Promise<void>((resolve, reject) => {
    // If the last message is deleted meanwhile, no delivered message reports that it is the last, so the consumer is polled as well.
    const look = async () => {
      const info = await consumer.info()
      if (info.num_pending === 0 && info.delivered.consumer_seq <= delivered) resolve()
    }
    looking = setInterval(() => void look().catch(() => undefined), POLL_INTERVAL_MS)
    const take = (message: JsMsg) => {
      records.push({
        subject: message.subject,
        sequence: message.seq,
        time: Math.floor(message.info.timestampNanos / 1e6),
        header: (name) => lastOf(message.headers, name),
        headers: () => Object.fromEntries(message.headers ?? []),
        data: message.data,
      })
      delivered = message.info.deliverySequence
      if (message.info.pending === 0) resolve()
    }
    // An exception in the callback would silently stop the client's read loop.
    const callback = (message: JsMsg) => {
      try {
        take(message)
      } catch (error) {
        reject(error)
      }
    }
    consumer.consume({ max_messages: 5_000, callback }).then((messages) => {
      stop = () => messages.stop()
    }, reject)
  }).finally(() => clearInterval(looking))
  stop()
  // Deletes the consumer, so that the check leaves nothing behind on the server.
  await consumer.delete()
  return records
}

function lastOf(headers: MsgHdrs | undefined, name: string): string | undefined {
  return headers?.values(name).at(-1)
}

/** Reads the data that the audit has stored from the streams of its buckets. */
export async function readEvidence(nc: NatsConnection): Promise<Evidence> {
  const bucket = async (name: string) => newest((await readStream(nc, `KV_${name}`)).records, `$KV.${name}.`)
  const objects = objectsIn((await readStream(nc, 'OBJ_archive')).records)
  return { manifest: await bucket('archive'), passes: await bucket('passes'), objects }
}

/** Returns the last value of each key that is not deleted. */
function newest(records: readonly StoredMessage[], prefix: string): Map<string, Uint8Array> {
  const values = new Map<string, Uint8Array>()
  for (const { subject, data, header } of records) {
    const key = subject.slice(prefix.length)
    if (header('KV-Operation')) values.delete(key)
    else values.set(key, data)
  }
  return values
}

interface Meta {
  name: string
  nuid: string
  deleted?: boolean
}

/** Assembles objects from their chunks. */
function objectsIn(records: readonly StoredMessage[]): Map<string, Uint8Array> {
  const chunks = new Map<string, Uint8Array[]>()
  const metas = new Map<string, Meta>()
  for (const { subject, data } of records) {
    const [, , kind, name = ''] = subject.split('.')
    if (kind === 'C') chunks.set(name, [...(chunks.get(name) ?? []), data])
    if (kind === 'M') metas.set(name, JSON.parse(new TextDecoder().decode(data)) as Meta)
  }
  const kept = [...metas.values()].filter(({ deleted }) => !deleted)
  return new Map(kept.map(({ name, nuid }) => [name, Buffer.concat(chunks.get(nuid) ?? [])]))
}
