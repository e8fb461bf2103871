import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { PER_SEGMENT } from '../check/archive.js'
import { pause } from '../wait-for.js'
import type { Fault } from './fault.js'

const CONCURRENCY = 128
const STREAM = 'PASSOVER'
/** Nobody acknowledges nothing: msgpack of `{ v: 1, returns: [] }`. */
const SUBJECT = 'acknowledged.nobody'
const EMPTY_ACK = Buffer.from('82a17601a772657475726e7390', 'hex')
const TIMEOUT_MS = 45_000
const RETRY_DELAY_MS = 200

/**
 * No harm by itself: fills up the archive's segment that is open now with messages that nobody needs, so that a short run too has segments that are sealed,
 * and passes that leave the stream while the others are under fire.
 */
export const fillSegment: Fault = async (arena, _, stop) => {
  const until = performance.now() + TIMEOUT_MS
  /** Servers in trouble, which is when it is wanted, answer a little later. */
  const persist = async <T>(ask: () => Promise<T>): Promise<T> => {
    for (;;) {
      try {
        return await ask()
      } catch (error) {
        if (stop.aborted || performance.now() > until) throw error
        await pause(RETRY_DELAY_MS, stop)
      }
    }
  }
  let nc: NatsConnection | undefined
  try {
    const login = await arena.access.admin()
    nc = await persist(() => connect({ servers: arena.servers, name: 'filler', maxReconnectAttempts: -1, noAsyncTraces: true, ...login }))
    const connected = nc
    const manager = await persist(() => jetstreamManager(connected))
    const lastOf = async () => (await manager.streams.info(STREAM)).state.last_seq
    const js = jetstream(nc, { timeout: 5_000 })
    const first = await persist(lastOf)
    const k = Math.floor((first + 1) / PER_SEGMENT)
    const full = (k + 1) * PER_SEGMENT - 1
    let last = first
    let stored = 0
    while (last < full && !stop.aborted && performance.now() < until) {
      const sent = Array.from({ length: Math.min(CONCURRENCY, full - last) }, () =>
        js.publish(SUBJECT, EMPTY_ACK).then(() => (stored += 1)),
      )
      // What is refused while the servers are in trouble is sent again.
      await Promise.allSettled(sent)
      last = await lastOf().catch(() => last)
    }
    return { done: `segment ${k} filled ${last < full ? `up to ${last}` : 'to its end'} (${stored} messages)` }
  } catch (error) {
    return { skipped: `nothing could be filled: ${error instanceof Error ? error.message : String(error)}` }
  } finally {
    await nc?.close()
  }
}
