import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { DECISIONS, DISPATCHER } from '@passover/bus'
import { until } from './until.js'

/** Every request and every decision that was stored is acknowledged by a dispatcher. */
export async function untilTaken(servers: string[], deadline_ms: number): Promise<void> {
  const nc = await connect({ servers })
  try {
    const manager = await jetstreamManager(nc)
    await until(
      async () => {
        const infos = await Promise.all([DISPATCHER, DECISIONS].map((name) => manager.consumers.info('PASSOVER', name)))
        return infos.every(({ num_pending, num_ack_pending }) => num_pending + num_ack_pending === 0)
      },
      { what: 'every request and decision is acknowledged', deadline_ms },
    )
  } finally {
    await nc.close()
  }
}
