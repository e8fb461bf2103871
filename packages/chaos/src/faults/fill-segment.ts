import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { PER_SEGMENT } from '../check/archive.js'
import { pause } from '../wait-for.js'
import type { Fault } from './fault.js'

const CONCURRENCY = 128
const STREAM = 'PASSOVER'
/** Subject and body of an acknowledgment without returns by an agent that does not exist: msgpack of `{ v: 1, returns: [] }`. */
const SUBJECT = 'acknowledged.nobody'
const EMPTY_ACK = Buffer.from('82a17601a772657475726e7390', 'hex')
const TIMEOUT_MS = 45_000
const RETRY_DELAY_MS = 200

/**
 * Fills the open segment of the archive with messages that have no effect. Does no harm itself, but lets segments be sealed and passes leave the
 * stream while other faults are in progress, even in a short run.
 */
export const fillSegment: Fault = async (topology, _, stop) => {
  const until = performance.now() + TIMEOUT_MS
  /** Retries, since servers under faults may answer late. */
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
    const login = await topology.access.admin()
    nc = await persist(() =>
      connect({ servers: topology.servers, name: 'filler', maxReconnectAttempts: -1, noAsyncTraces: true, ...login }),
    )
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
      // Messages that the servers refuse are sent again in the next round.
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
