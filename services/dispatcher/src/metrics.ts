import { counter, gauge, type MetricFamily } from '@passover/bus'
import type { Stats } from './stats.js'

const OUTCOMES = ['admitted', 'held', 'refused', 'bad', 'repeated', 'retried'] as const

/** A dispatcher's numbers for `/metrics`. */
export function dispatcherMetrics(stats: Stats): MetricFamily[] {
  const outcomes = OUTCOMES.map((outcome) => ({ labels: { outcome }, value: stats[outcome] }))
  return [
    counter('passover_dispatcher_requests_total', 'Requests, by what was made of them', outcomes),
    counter('passover_dispatcher_decisions_total', 'Held passes that went on or ended as a person decided', stats.decided),
    counter('passover_dispatcher_endings_total', 'Passes that its timekeeper ended', stats.ended),
    gauge('passover_dispatcher_open', 'Open passes and unanswered requests that its timekeeper knows of', stats.open),
    gauge('passover_dispatcher_position', 'Sequence that its timekeeper has read up to', stats.position),
  ]
}
