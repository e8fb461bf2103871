import { HEADER } from '@passover/schemas'
import { CONTENT_TYPE, decode, encode } from '../codec/codec.js'
import type { Connection } from '../connection/connection.js'
import { NOTHING, type ReplyMux } from '../connection/reply-mux.js'
import type { Subjects } from '../subjects/subjects.js'
import type { AskOptions, Service } from '../types/bus.js'
import type { Consumption } from '../types/deliveries.js'
import { encodeHeaders, headersOf } from '../wire/headers.js'
import type { ReceivedMessage } from '../wire/raw-message.js'

/** Queue group by which the replicas of a service share its requests. */
const QUEUE = 'passover'
const TIMEOUT_MS = 2_000

/**
 * Sends a core request. Resolves to `undefined` if no answer comes in time, or if it is empty or cannot be decoded. A service without an answer sends
 * an empty one.
 */
export async function ask(
  replies: ReplyMux,
  subject: string,
  options: Pick<AskOptions, 'timeout_ms' | 'onUnanswered'> & { question: unknown },
): Promise<unknown> {
  const headers = encodeHeaders({ [HEADER.contentType]: CONTENT_TYPE.msgpack })
  const { question, timeout_ms = TIMEOUT_MS, onUnanswered } = options
  const reply = await replies.request({ subject, data: encode(question), headers, timeout_ms })
  if ('none' in reply) {
    onUnanswered?.(reply.none)
    return undefined
  }
  const decoded = decode(reply.message.data, headersOf(reply.message).get(HEADER.contentType))
  return decoded.ok ? decoded.value : undefined
}

/**
 * Returns true if a reply subject is an inbox, in its own form or as mapped by an account import. A service may publish to subjects that the asker
 * may not: it must not publish its answer to an arbitrary subject that the asker names.
 */
function isInbox(reply: string): boolean {
  return reply.startsWith('_INBOX') || reply.startsWith('_R_')
}

/**
 * Answers a service's requests, each in the encoding of the request. If the handler throws, the error is reported and the asker gets an empty answer.
 */
export class QuestionService implements Consumption {
  readonly closed: Promise<void>
  /** Set if the server refused the subscription. */
  trouble: string | undefined
  readonly #link: Connection
  readonly #subscription
  readonly #under = new Set<Promise<void>>()

  constructor(
    context: { link: Connection; subjects: Subjects },
    service: Service,
    handler: (asker: string, question: unknown) => Promise<unknown>,
  ) {
    const { link, subjects } = context
    this.#link = link
    const onMessage = (message: ReceivedMessage) => {
      const parsed = subjects.parse(message.subject)
      const asker = parsed.kind === 'ask' ? parsed.asker : parsed.kind === 'register' ? parsed.agent : undefined
      if (asker === undefined || !message.reply || !isInbox(message.reply)) return
      const work = this.#answer(message, asker, handler).catch((error) => link.report(error))
      this.#under.add(work)
      void work.then(() => this.#under.delete(work))
    }
    const onRefused = (error: Error) => {
      this.trouble = `the server refuses its subscription to queries (fix the permission, then restart it): ${error.message}`
      link.report(error)
    }
    this.#subscription = link.subscribe(subjects.service(service), onMessage, { queue: QUEUE, onRefused })
    this.closed = this.#subscription.closed.then(() => undefined)
  }

  async drain(ms = 5_000): Promise<void> {
    if (!this.#subscription.isClosed()) this.#subscription.unsubscribe()
    if (this.#under.size === 0) return
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, ms)
    })
    await Promise.race([Promise.all(this.#under), late])
    clearTimeout(timer)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.drain()
  }

  async #answer(message: ReceivedMessage, asker: string, handler: (asker: string, question: unknown) => Promise<unknown>): Promise<void> {
    let data: Uint8Array = NOTHING
    let options = {}
    try {
      const decoded = decode(message.data, headersOf(message).get(HEADER.contentType))
      const answer = decoded.ok ? await handler(asker, decoded.value) : undefined
      if (decoded.ok && answer !== undefined) {
        data = encode(answer, decoded.type)
        options = { headers: encodeHeaders({ [HEADER.contentType]: CONTENT_TYPE[decoded.type] }) }
      }
    } catch (error) {
      this.#link.report(error)
    }
    // An empty answer counts as none. Without any answer the server would keep the reply mapping for a long time, which an agent could use to fill
    // its memory.
    this.#link.send(message.reply ?? '', data, options)
  }
}
