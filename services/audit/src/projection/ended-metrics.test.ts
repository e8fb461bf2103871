import { expect, it } from 'vitest'
import { EndedMetrics } from './ended-metrics.js'

it('counts passes by state and by how they ended, and how long they took', async () => {
  const ended = new EndedMetrics()
  ended.note({ status: 'returned', output_status: 'completed', created_at: 1_000, ended_at: 1_020 })
  ended.note({ status: 'returned', output_status: 'completed', created_at: 1_000, ended_at: 4_000 })
  ended.note({ status: 'timed_out', code: 'E010', created_at: 1_000, ended_at: 31_000 })
  // By clocks of two servers.
  ended.note({ status: 'refused', code: 'E001', created_at: 1_000, ended_at: 999 })
  const lines = (await ended.registry.metrics()).split('\n')
  for (const line of [
    'passover_passes_ended_total{status="returned",how="completed"} 2',
    'passover_passes_ended_total{status="timed_out",how="E010"} 1',
    'passover_passes_ended_total{status="refused",how="E001"} 1',
    'passover_pass_duration_seconds_bucket{le="0.025"} 2',
    'passover_pass_duration_seconds_sum 33.02',
    'passover_pass_duration_seconds_count 4',
  ])
    expect(lines).toContain(line)
})
