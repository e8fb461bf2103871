import { PassOverError } from '@passover/core'
import { errorText } from '@passover/schemas'
import { type EventsParameters, type FeedEvent, feedEvent } from '@passover/schemas/http'
import { type HttpOptions, pause, send } from './request.js'
import { type Block, blocks } from './sse-parser.js'

/** Options of `events`. */
export interface EventsOptions extends EventsParameters {
  /** Signal that ends the iteration. */
  signal?: AbortSignal
  /** Called if events cannot be delivered. `gap`: they were deleted before they were read. `reset`: the stream was replaced. */
  onLost?: (what: 'gap' | 'reset', data: unknown) => void
  /** Called before each reconnect, with the reason why the connection ended. */
  onReconnect?: (why: unknown) => void
}

const RETRY_DELAY_MS = 500
/** Milliseconds without a heartbeat after which the connection counts as dead. */
const SILENT_MS = 60_000

/**
 * Yields stored events, each once. After a lost connection (including a restart of the gateway) it resumes after the last id it received. Throws
 * E005 and E013, because a retry cannot fix them.
 */
export async function* events(options: HttpOptions, wanted: EventsOptions): AsyncGenerator<FeedEvent> {
  const { signal, onLost, onReconnect, after, ...query } = wanted
  let last = after === undefined ? undefined : String(after)
  while (!signal?.aborted) {
    const silence = new AbortController()
    const ends = signal ? AbortSignal.any([signal, silence.signal]) : silence.signal
    let timer = setTimeout(() => silence.abort(), SILENT_MS)
    let why: unknown
    try {
      const { body } = await send(options, '/events', { query, headers: { 'last-event-id': last }, signal: ends })
      for await (const block of blocks(body)) {
        clearTimeout(timer)
        timer = setTimeout(() => silence.abort(), SILENT_MS)
        const event = eventIn(block, onLost)
        // The id advances only after the consumer took the event. An event that is lost between two steps of a loop is delivered again.
        if (event) yield event
        if (block.id !== undefined) last = block.id
      }
    } catch (error) {
      if (error instanceof PassOverError && !error.recoverable) throw error
      why = error
    } finally {
      clearTimeout(timer)
      silence.abort()
    }
    if (signal?.aborted) return
    onReconnect?.(why)
    await pause(againIn(why), signal)
  }
}

function eventIn({ event, data }: Block, onLost: EventsOptions['onLost']): FeedEvent | undefined {
  if (event === 'passover') return read(data, (value) => feedEvent.parse(value))
  if (event === 'gap' || event === 'reset')
    onLost?.(
      event,
      read(data, (value) => value),
    )
  return undefined
}

/** Throws E040, after which the caller connects again: another program, or another version of the gateway, sent this. */
function read<T>(data: string, parse: (value: unknown) => T): T {
  try {
    return parse(JSON.parse(data))
  } catch (error) {
    throw new PassOverError('E040', `an event of the gateway cannot be read: ${errorText(error, 'the event')}`)
  }
}

/** Returns the delay before reconnecting in milliseconds: the gateway's, but at least `RETRY_DELAY_MS`. */
function againIn(why: unknown): number {
  const retryAfter = why instanceof PassOverError ? why.context?.retry_after_ms : undefined
  return typeof retryAfter === 'number' ? Math.max(retryAfter, RETRY_DELAY_MS) : RETRY_DELAY_MS
}
