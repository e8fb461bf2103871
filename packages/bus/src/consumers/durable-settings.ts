import type { BusContext } from '../messaging/bus-context.js'
import { DECISIONS, DISPATCHER, DISPATCHER_ACK_WAIT_MS, NOTIFIER_ACK_WAIT_MS, NOTIFIERS, RETURNS_ACK_WAIT_MS } from '../topology/configs.js'
import { settledUpTo } from '../topology/ensure-resource.js'
import { ensureDecisions, ensureNotifier, ensureRequests } from '../topology/topology.js'
import type { ConsumeSettings } from '../types/deliveries.js'
import { type ConsumeOptions, DurableConsumer } from './durable-consumer.js'

const CONCURRENCY = 64
/** Functions that re-create lost durables. A durable without one is not re-created. */
const RESTORED: Partial<Record<string, typeof ensureRequests>> = {
  [DISPATCHER]: ensureRequests,
  [DECISIONS]: ensureDecisions,
  ...Object.fromEntries(NOTIFIERS.map((durable) => [durable, ensureNotifier(durable)])),
}
/** Ack wait by durable; deliveries of these durables are renewed while they are handled. */
const ACK_WAITS: Partial<Record<string, number>> = {
  [DISPATCHER]: DISPATCHER_ACK_WAIT_MS,
  [DECISIONS]: DISPATCHER_ACK_WAIT_MS,
  ...Object.fromEntries(NOTIFIERS.map((durable) => [durable, NOTIFIER_ACK_WAIT_MS])),
}

/** Consumes a durable with the ack-wait renewal and re-creation settings configured for it. */
export function consumeDurable(
  { link, api, subjects, identity }: BusContext,
  { durable, handler }: Pick<ConsumeOptions, 'durable' | 'handler'>,
  { concurrency = CONCURRENCY, onRestored }: ConsumeSettings,
): DurableConsumer {
  const { stream } = subjects
  const ensure = RESTORED[durable]
  const waits = { ...ACK_WAITS, [subjects.returnsConsumer(identity)]: RETURNS_ACK_WAIT_MS }
  return new DurableConsumer(link, {
    stream,
    durable,
    concurrency,
    handler,
    ack_wait_ms: waits[durable],
    settled: () => settledUpTo(api, stream, durable),
    restore: ensure && ((from) => ensure(api, subjects, from)),
    onRestored,
  })
}
