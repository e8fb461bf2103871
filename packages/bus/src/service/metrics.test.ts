import { Registry } from 'prom-client'
import { expect, it } from 'vitest'
import { counter, gauge, metricsText, processMetrics } from './metrics.js'

it('is told in the text format, of all registries together, labels escaped', async () => {
  const [one, other] = [new Registry(), new Registry()]
  counter(one, { name: 'passover_x_total', help: 'How many\nthere were', labels: ['code', 'status'] }, [
    { labels: { code: 'E0"1\\', status: 'a\nb' }, value: 2 },
  ])
  counter(one, { name: 'passover_none_total', help: 'None yet' }, 0)
  gauge(other, { name: 'passover_open', help: 'Open' }, 7)
  gauge(other, { name: 'passover_parts', help: 'Parts', labels: ['what'] }, [{ labels: { what: 'x' }, value: 3 }])
  const { type, text } = await metricsText([one, other])
  expect(type).toContain('text/plain; version=0.0.4')
  const lines = text.split('\n')
  for (const line of [
    '# TYPE passover_x_total counter',
    'passover_x_total{code="E0\\"1\\\\",status="a\\nb"} 2',
    'passover_none_total 0',
    'passover_open 7',
    'passover_parts{what="x"} 3',
  ])
    expect(lines).toContain(line)
})

it('tells memory and processor time of the process', async () => {
  const { text } = await metricsText([processMetrics()])
  for (const name of ['process_resident_memory_bytes', 'process_cpu_seconds_total', 'process_start_time_seconds'])
    expect(text).toMatch(new RegExp(`^${name} [1-9]|^${name} 0\\.`, 'm'))
})
