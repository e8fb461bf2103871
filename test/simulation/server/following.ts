import type { FollowOptions, StoredMessage, StreamSubscription } from '@passover/bus'
import type { Fact } from '@passover/schemas'
import type { SimBus } from './bus.js'
import { TIMEOUT_MS } from './network-line.js'
import type { Kept } from './stream.js'

const THROWN_MS = 1_000
const NOTHING = new Uint8Array(0)

type OnMessage = (stored: StoredMessage, fact: Fact) => void | Promise<void>

/** An ordered reader: every stored message once and in order; after a broken connection it goes on where it was. */
export class SimFollowing implements StreamSubscription {
  readonly caughtUp: Promise<void>
  readonly closed: Promise<void>
  position: number
  readonly #bus: SimBus
  readonly #options: FollowOptions
  readonly #onMessage: OnMessage
  #queue: (Kept | 'caught up')[] = []
  #taken: number
  #busy = false
  #isClosed = false
  /** Counts readers: what an earlier one still hands on is not heard. */
  #reader = 0
  #resolveCaughtUp: () => void = () => undefined
  #resolveClosed: () => void = () => undefined

  constructor(bus: SimBus, options: FollowOptions, onMessage: OnMessage) {
    this.#bus = bus
    this.#options = options
    this.#onMessage = onMessage
    this.position = Math.max(0, (options.from ?? 1) - 1)
    this.#taken = this.position
    this.caughtUp = new Promise((resolve) => {
      this.#resolveCaughtUp = resolve
    })
    this.closed = new Promise((resolve) => {
      this.#resolveClosed = resolve
    })
    bus.line.onReconnect.add(this.#read)
  }

  static async open(bus: SimBus, options: FollowOptions, onMessage: OnMessage): Promise<SimFollowing> {
    const following = new SimFollowing(bus, options, onMessage)
    const made = await bus.line.request(() => true, TIMEOUT_MS)
    try {
      bus.must(made, 'reader')
    } catch (error) {
      await following[Symbol.asyncDispose]()
      throw error
    }
    following.#read()
    return following
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true
    this.#reader += 1
    this.#queue = []
    this.#bus.line.onReconnect.delete(this.#read)
    this.#resolveClosed()
  }

  readonly #read = (): void => {
    const { line, server } = this.#bus
    const reader = ++this.#reader
    this.#queue = []
    const next = Math.max(this.position, this.#taken) + 1
    line.up(() => {
      if (!line.connected || reader !== this.#reader) return
      const hand = (kept: Kept | 'caught up') => {
        if (reader !== this.#reader) return
        this.#queue.push(kept)
        if (!this.#busy) this.#work()
      }
      server.read({ line, filters: this.#options.filters, next, goal: 0, hand })
    }, 'arrives')
  }

  #work(): void {
    this.#busy = true
    for (let kept = this.#queue.shift(); kept; kept = this.#queue.shift()) {
      if (kept === 'caught up') this.#resolveCaughtUp()
      else {
        const pending = this.#hand(kept)
        if (!pending) continue
        void this.#wait(pending, kept)
        return
      }
    }
    this.#busy = false
  }

  #hand(kept: Kept): Promise<void> | undefined {
    this.#taken = kept.sequence
    const stored: StoredMessage = this.#options.headers_only ? { ...kept, data: NOTHING } : kept
    try {
      const pending = this.#onMessage(stored, this.#bus.subjects.toFact(stored))
      if (pending) return pending
      this.position = kept.sequence
      return undefined
    } catch (error) {
      return Promise.reject(error)
    }
  }

  async #wait(pending: Promise<void>, kept: Kept): Promise<void> {
    for (let work: Promise<void> | undefined = pending; work; ) {
      try {
        await work
        this.position = kept.sequence
        break
      } catch {
        await new Promise<void>((resolve) => this.#bus.timing.after(THROWN_MS, resolve))
        if (this.#isClosed) return
        work = this.#hand(kept)
      }
    }
    this.#work()
  }
}
