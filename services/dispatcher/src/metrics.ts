import { counter, gauge } from '@passover/bus'
import { Registry } from 'prom-client'
import type { Stats } from './runtime/stats.js'

const OUTCOMES = ['admitted', 'held', 'refused', 'bad', 'repeated', 'retried'] as const

/** Builds the metrics that a dispatcher reports at `/metrics`. */
export function dispatcherMetrics(stats: Stats): Registry {
  const registry = new Registry()
  const outcomes = OUTCOMES.map((outcome) => ({ labels: { outcome }, value: stats[outcome] }))
  const requests = { name: 'passover_dispatcher_requests_total', help: 'Requests, by outcome', labels: ['outcome'] }
  counter(registry, requests, outcomes)
  const decided = 'Held passes that continued or ended by the decision of a person'
  counter(registry, { name: 'passover_dispatcher_decisions_total', help: decided }, stats.decided)
  counter(registry, { name: 'passover_dispatcher_endings_total', help: 'Passes ended by the timekeeper' }, stats.ended)
  const open = 'Open passes and unanswered requests known to the timekeeper'
  gauge(registry, { name: 'passover_dispatcher_open', help: open }, stats.open)
  gauge(registry, { name: 'passover_dispatcher_position', help: 'Sequence up to which the timekeeper has read' }, stats.position)
  return registry
}
