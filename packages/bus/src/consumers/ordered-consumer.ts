import type { Connection } from '../connection/connection.js'
import type { JetStreamApi } from '../messaging/jetstream-api.js'
import { BusReadError } from '../types/errors.js'
import type { StreamSubscription } from '../types/subscriptions.js'
import { BatchPacer } from './batch-pacing.js'
import type { StreamDelivery } from './delivery.js'
import { EphemeralConsumers } from './ephemeral-consumers.js'
import type { LeaderCopy } from './leader-copy.js'
import { Puller } from './pull-requests.js'
import { SequentialDispatcher } from './sequential-dispatcher.js'
import { StreamIdentity } from './stream-identity.js'

export interface ReaderOptions {
  stream: string
  filters?: string[] | undefined
  /** First sequence to read, or `last_per_subject`: the newest message of every subject and then everything that follows. */
  start: number | 'last_per_subject'
  headers_only?: boolean | undefined
  in_gulps?: boolean | undefined
  /** Leader that verifies each gap between deliveries; only for a numeric `start`. If omitted, deliveries are trusted. */
  leader?: LeaderCopy | undefined
  /** Called in order, one message at a time. If it throws, it is called again with the same message, so nothing is skipped. */
  onMessage: (delivery: StreamDelivery) => void | Promise<void>
  /** Called if the stream's last sequence is below the position: it rolled back, or is another stream. */
  onRollback?: (last: number) => void
}

const WINDOW = 512
const WINDOW_HEADERS = 1024
const PULL_EXPIRES_MS = 5_000
/** Pull expiry while catching up: the awaited messages may have been deleted in the meantime. */
const CATCHING_EXPIRES_MS = 1_000
const MAX_BYTES = 8 * 1024 * 1024
const RETRY_DELAY_MS = 250

/**
 * Ordered reader: delivers every stored message once, in order, also across reconnects, restarts and lost consumers. It reads through a short-lived
 * consumer without acknowledgments, checks that its deliveries are consecutive, and in doubt creates a new consumer that starts after the last
 * message delivered. A gap in the stream sequences is accepted only if the stream's leader has no message there either, since a replica can lack
 * messages.
 */
export class OrderedConsumer implements StreamSubscription {
  readonly closed: Promise<void>
  readonly caughtUp: Promise<void>
  readonly #link: Connection
  readonly #options: ReaderOptions
  readonly #consumers: EphemeralConsumers
  readonly #stream: StreamIdentity
  readonly #undo: () => void
  readonly #window: number
  #resolveClosed: () => void = () => undefined
  #resolveCaughtUp: () => void = () => undefined
  #isCaughtUp = false
  /** True if the server has no message after the last delivery. */
  #nothingBehind = false
  #position: number
  /** Queue of received messages. A restart does not fetch again the message being handled. */
  readonly #dispatcher: SequentialDispatcher
  #puller: Puller | undefined
  #consumer = ''
  /** Server that serves the consumer, if known. */
  #server: string | undefined
  #expected = 1
  /** Sequence of the newest delivery. */
  #arrived = 0
  /** Last sequence of the stream when the reader first appeared to be caught up. */
  #end: number | undefined
  #confirming = false
  #timer: NodeJS.Timeout | undefined
  #making = false
  #isClosed = false
  #trouble: string | undefined
  readonly #pacer = new BatchPacer()

  constructor(context: { link: Connection; api: JetStreamApi }, options: ReaderOptions) {
    this.#link = context.link
    this.#options = options
    this.#consumers = new EphemeralConsumers(context, options)
    this.#stream = new StreamIdentity(context.api, options.stream)
    this.#window = options.headers_only ? WINDOW_HEADERS : WINDOW
    this.#position = typeof options.start === 'number' ? Math.max(0, options.start - 1) : 0
    this.#dispatcher = new SequentialDispatcher({
      handle: options.onMessage,
      onHandled: (delivery) => this.#onHandled(delivery),
      onIdle: () => this.#onIdle(),
      report: (error) => this.#link.report(error),
    })
    this.#undo = this.#link.onReconnect.add(() => void this.#restart())
    this.closed = new Promise((resolve) => {
      this.#resolveClosed = resolve
    })
    this.caughtUp = new Promise((resolve) => {
      this.#resolveCaughtUp = resolve
    })
  }

  get position(): number {
    return this.#position
  }

  get trouble(): string | undefined {
    return this.#isClosed ? 'it has stopped reading' : this.#trouble
  }

  /** Creates the first consumer. Throws BusReadError if the server refuses it. */
  async open(): Promise<this> {
    try {
      await this.#make()
    } catch (error) {
      await this[Symbol.asyncDispose]()
      throw error
    }
    return this
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#undo()
    clearTimeout(this.#timer)
    this.#dispatcher.close()
    await this.#drop()
    this.#resolveClosed()
  }

  async #drop(): Promise<void> {
    const puller = this.#puller
    this.#puller = undefined
    this.#pacer.stop()
    if (this.#consumer) this.#consumers.retire(this.#consumer)
    this.#consumer = ''
    await puller?.[Symbol.asyncDispose]()
    await this.#consumers.clear()
  }

  /** Creates a new consumer after the last message delivered. Retries until it succeeds. */
  async #restart(): Promise<void> {
    if (this.#isClosed || this.#making) return
    clearTimeout(this.#timer)
    this.#making = true
    try {
      this.#dispatcher.clear()
      void this.#drop()
      await this.#checkBack()
      await this.#make()
    } catch (error) {
      this.#trouble = error instanceof Error ? error.message : String(error)
      this.#later(RETRY_DELAY_MS)
    } finally {
      this.#making = false
    }
  }

  #later(ms: number): void {
    if (this.#isClosed) return
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => void this.#restart(), ms)
    this.#timer.unref()
  }

  async #checkBack(): Promise<void> {
    const { last, isOther } = await this.#stream.look()
    if (last >= this.#position && !isOther) return
    this.#position = isOther || this.#options.start === 'last_per_subject' ? 0 : last
    this.#dispatcher.forget()
    this.#options.onRollback?.(this.#position)
  }

  async #make(): Promise<void> {
    const { stream, start } = this.#options
    const after = Math.max(this.#position, this.#dispatcher.taken)
    const made = await this.#consumers.make(start === 'last_per_subject' && after === 0 ? start : after + 1)
    if (this.#isClosed) {
      this.#consumers.retire(made.name)
      return this.#consumers.clear()
    }
    this.#consumer = made.name
    this.#server = made.server
    this.#expected = 1
    this.#arrived = after
    this.#trouble = undefined
    this.#puller = new Puller(this.#link, stream, made.name)
    this.#nothingBehind = made.pending === 0
    this.#checkCaughtUp()
    this.#pull()
  }

  #pull(): void {
    const puller = this.#puller
    if (!puller || this.#isClosed || this.#pacer.waits(puller.outstanding)) return
    const room = this.#window - puller.outstanding - this.#dispatcher.length
    if (room < this.#window / 2) return
    void this.#pullOnce(puller, room)
  }

  async #pullOnce(puller: Puller, batch: number): Promise<void> {
    const since = performance.now()
    const before = this.#expected
    const max_bytes = this.#options.headers_only ? {} : { max_bytes: Math.max(MAX_BYTES, 2 * this.#link.maxPayload) }
    const is_gulp = this.#pacer.on
    const waits_ms = this.#isCaughtUp ? PULL_EXPIRES_MS : CATCHING_EXPIRES_MS
    const expires_ms = is_gulp ? 0 : waits_ms
    const end = await puller.pull({ batch, expires_ms, ...max_bytes }, (delivery) => this.#onDelivery(puller, delivery))
    if (puller !== this.#puller || this.#isClosed) return
    const nothing = end === 'empty' && this.#expected === before
    const ms = performance.now() - since
    const odd = nothing && ms < expires_ms / 2
    if (end === 'gone' || end === 'failed' || odd) {
      this.#trouble = end === 'gone' ? 'its consumer was deleted' : 'messages cannot be read at the moment'
      return this.#later(RETRY_DELAY_MS)
    }
    if (this.#options.in_gulps && this.#isCaughtUp) {
      this.#pacer.after({ end, is_gulp, came: this.#expected - before, ms }, () => this.#pull())
    }
    if (this.#isCaughtUp) await this.#stream.note().catch(() => undefined)
    if (nothing && !this.#isCaughtUp) await this.#askBehind(puller).catch(() => undefined)
    this.#pull()
  }

  /** Asks the server whether anything is left. If pending messages were deleted meanwhile, no delivery reports that it is the last. */
  async #askBehind(puller: Puller): Promise<void> {
    const { pending, delivered } = await this.#consumers.look(this.#consumer)
    if (puller !== this.#puller || pending > 0 || delivered >= this.#expected) return
    this.#nothingBehind = true
    this.#checkCaughtUp()
  }

  #checkCaughtUp(): void {
    if (this.#nothingBehind && this.#dispatcher.idle) this.#caughtUp()
  }

  #caughtUp(): void {
    const { leader } = this.#options
    if (this.#isCaughtUp || this.#confirming) return
    if (leader && this.#puller) return void this.#confirmEnd(leader, this.#puller)
    this.#setCaughtUp()
  }

  #setCaughtUp(): void {
    this.#isCaughtUp = true
    this.#resolveCaughtUp()
  }

  /** Confirms with the leader that the end was reached: a replica that lags or lacks the stream's end also reports nothing after its last message. */
  async #confirmEnd(leader: LeaderCopy, puller: Puller): Promise<void> {
    this.#confirming = true
    const isBehind = await this.#isBehind(leader, puller).catch(() => true)
    this.#confirming = false
    if (puller !== this.#puller) return this.#checkCaughtUp()
    if (isBehind) return this.#later(RETRY_DELAY_MS)
    this.#setCaughtUp()
  }

  async #isBehind(leader: LeaderCopy, puller: Puller): Promise<boolean> {
    this.#end ??= await this.#stream.last()
    while (this.#position < this.#end) {
      const after = this.#position
      const missed = await leader.between(after, this.#end + 1, () => puller === this.#puller)
      if (missed === undefined || missed > this.#position) return missed !== undefined
    }
    return false
  }

  #onHandled(delivery: StreamDelivery): void {
    this.#position = delivery.sequence
    if (delivery.pending === 0 || (this.#end !== undefined && this.#position >= this.#end)) this.#caughtUp()
  }

  #onIdle(): void {
    if (!this.#isCaughtUp) this.#checkCaughtUp()
    this.#pull()
  }

  #onDelivery(puller: Puller, delivery: StreamDelivery): void {
    if (puller !== this.#puller || this.#isClosed) return
    if (delivery.consumer_sequence !== this.#expected) {
      void this.#restart()
      return
    }
    this.#expected += 1
    this.#nothingBehind = delivery.pending === 0
    const { leader } = this.#options
    const isJump = delivery.sequence > this.#arrived + 1
    const doubt = leader && isJump ? this.#compare(leader, { puller, after: this.#arrived, before: delivery.sequence }) : undefined
    this.#arrived = delivery.sequence
    this.#dispatcher.push(delivery, doubt)
  }

  /**
   * Settles once the leader has confirmed that no message is missing between the two. If one is missing, the reader restarts with another consumer.
   */
  async #compare(leader: LeaderCopy, { puller, after, before }: { puller: Puller; after: number; before: number }): Promise<void> {
    const isWanted = () => puller === this.#puller && !this.#isClosed
    let trouble: string | undefined
    while (isWanted()) {
      try {
        const missed = await leader.between(after, before, isWanted)
        if (missed !== undefined && isWanted()) this.#readAnotherCopy(missed)
        if (trouble !== undefined && this.#trouble === trouble) this.#trouble = undefined
        return
      } catch (error) {
        trouble = error instanceof Error ? error.message : String(error)
        this.#trouble = trouble
        await new Promise((again) => setTimeout(again, RETRY_DELAY_MS).unref())
      }
    }
  }

  /** Reports the server that serves the consumer, since its copy lacks a message, and restarts with another consumer. */
  #readAnotherCopy(missed: number): void {
    const who = `the copy of ${this.#options.stream} on server ${this.#server ?? '(unknown)'}`
    const what = `${who} lacks message ${missed}, which the leader has; reading from another copy. Empty the store of that server (docs/operations/troubleshooting.md#a-server-lacks-messages)`
    this.#link.report(new BusReadError(what, 'refused_by_server'))
    void this.#restart()
  }
}
