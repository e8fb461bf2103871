import type { Bus } from '@passover/bus'
import { printableJson } from '@passover/core'
import { askNameVerification, describeEvent } from '@passover/operator'
import type { Fact } from '@passover/schemas'
import type { EventsParameters, FeedEvent } from '@passover/schemas/http'
import type { Caller } from '../auth/caller.js'
import type { HeldConnection } from '../auth/connection-pool.js'
import { createProblem, HttpProblem } from '../http/problem.js'
import { FeedVisibility } from './feed-visibility.js'
import { SlowReaderError, StreamWriter } from './stream-writer.js'

interface FeedLimits {
  feeds: number
  feeds_a_token: number
  heartbeat_ms: number
  slow_ms: number
  recheck_ms: number
}

/** Checks that an accepted caller would still be accepted now. */
type StandsStill = (caller: Caller) => Promise<boolean>

interface FeedOptions {
  /** Connection that the stream is read on. */
  bus: Bus
  /** The connection of the token's owner, released when the feed ends. The feed pauses while it is disconnected, and ends when it is lost. */
  owner: HeldConnection
  caller: Caller
  wanted: EventsParameters
  /** Sequence up to which the reader has read; `undefined` starts with the next stored message. */
  after: number | undefined
}

/** Event kinds whose details are in the message body, which a feed does not load for other kinds. */
const TOLD_BY_BODY = new Set(['cancel', 'progress', 'violation'])
const RETRY_MS = 1_000

/**
 * Feeds of stored messages as server-sent events. An event's id is its sequence in the stream, so the stream itself is the buffer for every reader,
 * however slow or far behind. The gateway buffers nothing, and any gateway can continue where another stopped.
 */
export class Feeds {
  readonly #limits: FeedLimits
  readonly #standsStill: StandsStill
  readonly #open = new Set<{ token: string; close: () => Promise<void> }>()

  constructor(limits: FeedLimits, standsStill: StandsStill) {
    this.#limits = limits
    this.#standsStill = standsStill
  }

  get size(): number {
    return this.#open.size
  }

  /** Opens a feed. Throws 503 if too many are open. */
  async open(options: FeedOptions): Promise<Response> {
    const { caller, bus, after } = options
    this.#refuseMore(caller)
    const writer = new StreamWriter(this.#limits.slow_ms)
    // Registered before the first `await`, so that concurrent requests count one another.
    const feed = { token: caller.token, close: async () => writer.close() }
    this.#open.add(feed)
    const ended = () => {
      if (this.#open.delete(feed)) options.owner.release()
    }
    try {
      const { first, last } = await bus.bounds()
      const { heartbeat_ms, recheck_ms } = this.#limits
      const standsStill = this.#standsStill
      feed.close = await startFeed(options, { writer, first, last, after: after ?? last, ended, heartbeat_ms, recheck_ms, standsStill })
    } catch (error) {
      ended()
      throw error
    }
    return new Response(writer.readable, {
      headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-store', 'x-accel-buffering': 'no' },
    })
  }

  #refuseMore({ token }: Caller): void {
    const own = [...this.#open].filter((feed) => feed.token === token).length
    if (this.#open.size < this.#limits.feeds && own < this.#limits.feeds_a_token) return
    const detail = own < this.#limits.feeds_a_token ? 'too many feeds are open' : 'this token has too many open feeds'
    throw new HttpProblem(createProblem(503, { code: 'E014', detail, hint: 'close a feed, or try again later', retry_after_ms: 5_000 }))
  }

  async close(): Promise<void> {
    await Promise.all([...this.#open].map((feed) => feed.close()))
  }
}

interface FeedStart {
  writer: StreamWriter
  first: number
  last: number
  after: number
  ended: () => void
  heartbeat_ms: number
  recheck_ms: number
  standsStill: StandsStill
}

/** Starts a feed and returns the function that closes it. */
async function startFeed(options: FeedOptions, beginning: FeedStart): Promise<() => Promise<void>> {
  const { bus, owner, caller, wanted } = options
  const { writer, first, last, after, ended, heartbeat_ms, recheck_ms, standsStill } = beginning
  const visibility = new FeedVisibility(bus, caller)
  const seen = { subjects: bus.subjects, names: await askNameVerification(bus) }
  const start = Math.min(after, last)
  let position = start
  // These writes are not awaited, so a slow reader must not cause an unhandled rejection.
  const tell = (text: string) => writer.write(text).catch(slow)
  void tell(`retry: ${RETRY_MS}\n\n`)
  if (after > last) void tell(block('reset', start, { asked: after, last }))
  // Only messages deleted one by one are missing; the first remaining sequence says how far the missing range extends.
  else if (start + 1 < first) void tell(block('gap', start, { from: start + 1, to: first - 1 }))
  else void tell(block('position', start, {}))
  const onRollback = (now: number) => {
    position = now
    void tell(block('reset', now, { last: now }))
  }
  const reader = await bus.follow({ from: start + 1, headers_only: true, onRollback }, async (stored, fact) => {
    if (writer.closed) return
    const event = describeEvent(stored, fact, seen)
    if (event && isWanted(event, wanted) && (await visibility.sees(event))) {
      const told = await completeEvent(bus, { happening: event, fact, seen })
      await connected(owner.bus, writer)
      await tell(block('passover', stored.sequence, told))
    }
    position = stored.sequence
  })
  const heartbeat = setInterval(() => {
    if (!writer.busy) void tell(block('position', position, {}))
  }, heartbeat_ms)
  // A feed outlives the request that authenticated it, so it must end when the token or the owner's credentials are revoked.
  const recheck = setInterval(() => {
    if (owner.lost()) return writer.close()
    void standsStill(caller)
      .catch(() => false)
      .then((stands) => stands || writer.close())
  }, recheck_ms)
  const close = async () => {
    clearInterval(heartbeat)
    clearInterval(recheck)
    writer.close()
    await reader[Symbol.asyncDispose]()
    ended()
  }
  void writer.ended.then(close)
  return close
}

/** Waits until the owner is connected, or the feed has ended. */
function connected(owner: Bus, writer: StreamWriter): Promise<void> {
  if (owner.connected) return Promise.resolve()
  return new Promise((resolve) => {
    const stop = owner.onReconnect(done)
    function done() {
      stop()
      resolve()
    }
    void writer.ended.then(done)
  })
}

/** Ignores a slow reader, whose stream is closed; it resumes from its last event id when it reconnects. */
function slow(error: unknown): void {
  if (!(error instanceof SlowReaderError)) throw error
}

function block(event: string, id: number, data: object): string {
  return `event: ${event}\nid: ${id}\ndata: ${printableJson(data)}\n\n`
}

/** Adds details that only the body has. Loads the body only for events that the reader sees. */
async function completeEvent(
  bus: Bus,
  { happening, fact, seen }: { happening: FeedEvent; fact: Fact; seen: Parameters<typeof describeEvent>[2] },
): Promise<FeedEvent> {
  const stored = TOLD_BY_BODY.has(happening.kind) ? await bus.journal.message(happening.sequence) : undefined
  return (stored && describeEvent(stored, fact, seen)) ?? happening
}

function isWanted(event: FeedEvent, { id, originating_agent, subagent }: EventsParameters): boolean {
  if (id !== undefined && !event.id?.startsWith(id)) return false
  if (originating_agent !== undefined && event.originator !== originating_agent) return false
  return subagent === undefined || event.subagent === subagent
}
