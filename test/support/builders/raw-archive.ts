import { createHash } from 'node:crypto'
import { gunzipSync } from 'node:zlib'
import { jetstream } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { decode } from '@passover/bus'

/** Stream and archive as any client of NATS finds them, and judged by the format alone: none of what seals, reads or verifies it is used. */
export interface RawMessage {
  sequence: number
  subject: string
  data: Uint8Array
}

const SEGMENT = 4_096

/** Everything that a stream holds now. */
export async function rawMessages(url: string, stream: string): Promise<RawMessage[]> {
  const nc = await connect({ servers: url })
  try {
    const consumer = await jetstream(nc).consumers.get(stream)
    const found: RawMessage[] = []
    if ((await consumer.info()).num_pending === 0) return found
    const messages = await consumer.consume()
    let delivered = 0
    // Where the last one is deleted meanwhile, no message says that it is the last.
    const look = async () => {
      const info = await consumer.info()
      if (info.num_pending === 0 && info.delivered.consumer_seq <= delivered) messages.stop()
    }
    const looking = setInterval(() => void look().catch(() => undefined), 200)
    try {
      for await (const message of messages) {
        found.push({ sequence: message.seq, subject: message.subject, data: message.data })
        delivered = message.info.deliverySequence
        if (message.info.pending === 0) break
      }
    } finally {
      clearInterval(looking)
    }
    return found
  } finally {
    await nc.close()
  }
}

interface Entry {
  k: number
  object: string
  compression: string
  first: number
  last: number
  count: number
  chain_before: string
  chain_after: string
}

/** Every archived message. Throws where a segment is missing, does not continue the chain, or holds a sequence that is not the one after the last. */
export async function rawArchive(url: string): Promise<RawMessage[]> {
  const objects = await objectsOf(url)
  const entries = (await rawMessages(url, 'KV_archive'))
    .filter(({ subject }) => subject.startsWith('$KV.archive.segment.'))
    .map(({ data }) => decodedOf<Entry>(data))
    .sort((a, b) => a.k - b.k)
  const found: RawMessage[] = []
  let chain = '0'.repeat(64)
  for (const [k, entry] of entries.entries()) {
    if (entry.k !== k) throw new Error(`segment ${k} is missing, or is there twice`)
    if (entry.chain_before !== chain) throw new Error(`segment ${k} does not continue the chain`)
    const stored = objects.get(entry.object)
    if (!stored) throw new Error(`object ${entry.object} is missing`)
    const hash = createHash('sha256').update(Buffer.from(chain, 'hex'))
    for (const { message, digest } of framesOf(entry.compression === 'gzip' ? gunzipSync(stored) : stored)) {
      const wanted = found.length + 1
      if (message.sequence !== wanted) throw new Error(`segment ${k} holds ${message.sequence} where ${wanted} belongs`)
      if (Math.floor(wanted / SEGMENT) !== k) throw new Error(`sequence ${wanted} stands in segment ${k}`)
      found.push(message)
      hash.update(digest)
    }
    chain = hash.digest('hex')
    if (entry.chain_after !== chain || entry.last !== found.length) throw new Error(`segment ${k} does not hold what its entry says`)
  }
  return found
}

function* framesOf(raw: Buffer): Generator<{ message: RawMessage; digest: Buffer }> {
  for (let at = 0; at < raw.length; ) {
    const end = at + 4 + raw.readUInt32BE(at)
    const body = raw.subarray(at + 4, end)
    // An array of five: two doubles, two texts and bytes, each with a length of four bytes.
    const subject = 1 + 9 + 9 + 5
    const headers = subject + body.readUInt32BE(subject - 4) + 5
    const data = headers + body.readUInt32BE(headers - 4) + 5
    yield {
      message: {
        sequence: body.readDoubleBE(2),
        subject: body.toString('utf8', subject, headers - 5),
        data: body.subarray(data, data + body.readUInt32BE(data - 4)),
      },
      digest: createHash('sha256').update(body).digest(),
    }
    at = end
  }
}

/** By name, those that were not deleted. */
async function objectsOf(url: string): Promise<Map<string, Buffer>> {
  const chunks = new Map<string, Uint8Array[]>()
  const names = new Map<string, string>()
  for (const { subject, data } of await rawMessages(url, 'OBJ_archive')) {
    if (subject.startsWith('$O.archive.C.')) {
      const id = subject.slice('$O.archive.C.'.length)
      chunks.set(id, [...(chunks.get(id) ?? []), data])
      continue
    }
    const { name, nuid, deleted } = JSON.parse(Buffer.from(data).toString()) as { name: string; nuid: string; deleted?: boolean }
    if (deleted) names.delete(name)
    else names.set(name, nuid)
  }
  return new Map([...names].map(([name, nuid]) => [name, Buffer.concat(chunks.get(nuid) ?? [])]))
}

function decodedOf<T>(data: Uint8Array): T {
  const decoded = decode(data)
  if (!decoded.ok) throw new Error(decoded.error.message)
  return decoded.value as T
}
