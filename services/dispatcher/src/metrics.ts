import { counter, gauge } from '@passover/bus'
import { Registry } from 'prom-client'
import type { Stats } from './runtime/stats.js'

const OUTCOMES = ['admitted', 'held', 'refused', 'bad', 'repeated', 'retried'] as const

/** Builds the metrics that a dispatcher reports at `/metrics`. */
export function dispatcherMetrics(stats: Stats): Registry {
  const registry = new Registry()
  const outcomes = OUTCOMES.map((outcome) => ({ labels: { outcome }, value: stats[outcome] }))
  const requests = { name: 'passover_dispatcher_requests_total', help: 'Requests, by what was made of them', labels: ['outcome'] }
  counter(registry, requests, outcomes)
  const decided = 'Held passes that went on or ended as a person decided'
  counter(registry, { name: 'passover_dispatcher_decisions_total', help: decided }, stats.decided)
  counter(registry, { name: 'passover_dispatcher_endings_total', help: 'Passes that its timekeeper ended' }, stats.ended)
  const open = 'Open passes and unanswered requests that its timekeeper knows of'
  gauge(registry, { name: 'passover_dispatcher_open', help: open }, stats.open)
  gauge(registry, { name: 'passover_dispatcher_position', help: 'Sequence that its timekeeper has read up to' }, stats.position)
  return registry
}
