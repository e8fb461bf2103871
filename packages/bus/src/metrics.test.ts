import { expect, it } from 'vitest'
import { counter, Distribution, gauge, metricsText, processMetrics } from './metrics.js'

it('is told in the text format, labels escaped', () => {
  const text = metricsText([
    counter('passover_x_total', 'How many\nthere were', [{ labels: { code: 'E0"1\\', status: 'a\nb' }, value: 2 }]),
    gauge('passover_open', 'Open', 7),
  ])
  expect(text).toBe(
    '# HELP passover_x_total How many\\nthere were\n# TYPE passover_x_total counter\n' +
      'passover_x_total{code="E0\\"1\\\\",status="a\\nb"} 2\n' +
      '# HELP passover_open Open\n# TYPE passover_open gauge\npassover_open 7\n',
  )
})

it('counts what took at most so long, all of it in the last', () => {
  const took = new Distribution([0.1, 1])
  for (const seconds of [0.05, 0.1, 0.5, 20]) took.observe(seconds)
  expect(
    metricsText([took.family('t', 'h')])
      .split('\n')
      .slice(2, -1),
  ).toEqual(['t_bucket{le="0.1"} 2', 't_bucket{le="1"} 3', 't_bucket{le="+Inf"} 4', 't_sum 20.65', 't_count 4'])
})

it('tells memory and processor time of the process', () => {
  expect(processMetrics().map(({ name }) => name)).toEqual([
    'process_resident_memory_bytes',
    'process_cpu_seconds_total',
    'process_start_time_seconds',
  ])
  for (const { samples } of processMetrics()) expect(samples[0]?.value).toBeGreaterThan(0)
})
