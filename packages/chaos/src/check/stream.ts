import { type JsMsg, jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect, type MsgHdrs } from '@nats-io/transport-node'
import { within } from '../wait.js'
import type { CheckerOptions, Judgement, StoredMessage } from './found.js'
import { judge } from './judge.js'

/** Reads a whole stream from its first message and judges it by the server's clock. */
export async function checkStream(
  servers: string | string[],
  options: CheckerOptions & { user?: string; pass?: string } = {},
): Promise<Judgement> {
  const nc = await connect({ servers, name: 'checker', ...(options.user ? { user: options.user, pass: options.pass ?? '' } : {}) })
  try {
    const jsm = await jetstreamManager(nc)
    const stream = options.stream ?? 'PASSOVER'
    const info = await jsm.streams.info(stream)
    const records = info.state.messages === 0 ? [] : await within(readAll(nc, stream), 'the checker reads the stream', 300_000)
    return judge(records, Date.parse((info as unknown as { ts: string }).ts), options)
  } finally {
    await nc.close()
  }
}

async function readAll(nc: Awaited<ReturnType<typeof connect>>, stream: string): Promise<StoredMessage[]> {
  const consumer = await jetstream(nc).consumers.get(stream)
  const records: StoredMessage[] = []
  let stop = () => {}
  await new Promise<void>((resolve, reject) => {
    const take = (message: JsMsg) => {
      records.push({
        subject: message.subject,
        sequence: message.seq,
        time: Math.floor(message.info.timestampNanos / 1e6),
        header: (name) => lastOf(message.headers, name),
        data: message.data,
      })
      if (message.info.pending === 0) resolve()
    }
    // What a callback throws would end the client's reader without a word.
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
  })
  stop()
  // Who looks for what others left behind must leave nothing.
  await consumer.delete()
  return records
}

function lastOf(headers: MsgHdrs | undefined, name: string): string | undefined {
  return headers?.values(name).at(-1)
}
