import type { Priority } from '@passover/schemas'
import type { Connection } from '../connection/connection.js'
import type { JetStreamApi } from '../messaging/jetstream-api.js'
import { API_ERROR } from '../messaging/jetstream-api.js'
import type { Subjects } from '../subjects/subjects.js'
import type { Delivery, PullEnd, PullOptions, WorkSource } from '../types/deliveries.js'
import { BusReadError } from '../types/errors.js'
import { Puller } from './pull-requests.js'

interface SourceContext {
  link: Connection
  api: JetStreamApi
  subjects: Subjects
  onClose: (source: AsyncDisposable) => void
}

/** One of a subagent's three work consumers. The dispatcher creates them; workers only bind to them. */
export class StreamWorkSource implements WorkSource {
  readonly priority: Priority
  readonly #api: JetStreamApi
  readonly #puller: Puller
  readonly #info: string
  readonly #onClose: (source: AsyncDisposable) => void

  constructor(context: SourceContext, subagent: string, priority: Priority) {
    const consumer = context.subjects.workConsumer(subagent, priority)
    this.priority = priority
    this.#onClose = context.onClose
    this.#api = context.api
    this.#info = `CONSUMER.INFO.${context.subjects.stream}.${consumer}`
    this.#puller = new Puller(context.link, context.subjects.stream, consumer)
  }

  pull(options: PullOptions, onDelivery: (delivery: Delivery) => void): Promise<PullEnd> {
    return this.#puller.pull(options, onDelivery)
  }

  async created(): Promise<number | undefined> {
    const reply = await this.#api.call<{ created: string }>(this.#info)
    if (reply.ok) return Date.parse(reply.value.created)
    if (reply.err_code === API_ERROR.consumerNotFound || reply.err_code === API_ERROR.streamNotFound) return undefined
    throw new BusReadError(`${this.#info}: ${reply.description} (${reply.err_code})`, 'refused_by_server')
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#onClose(this)
    return this.#puller[Symbol.asyncDispose]()
  }
}
