import { expect, it } from 'vitest'
import { EndedPasses } from './ended-passes.js'

it('counts passes by state and by how they ended, and how long they took', () => {
  const ended = new EndedPasses()
  ended.note({ status: 'returned', output_status: 'completed', created_at: 1_000, ended_at: 1_020 })
  ended.note({ status: 'returned', output_status: 'completed', created_at: 1_000, ended_at: 4_000 })
  ended.note({ status: 'timed_out', code: 'E010', created_at: 1_000, ended_at: 31_000 })
  // By clocks of two servers.
  ended.note({ status: 'refused', code: 'E001', created_at: 1_000, ended_at: 999 })
  const [counted, took] = ended.families()
  expect(counted?.samples).toEqual([
    { labels: { status: 'returned', how: 'completed' }, value: 2 },
    { labels: { status: 'timed_out', how: 'E010' }, value: 1 },
    { labels: { status: 'refused', how: 'E001' }, value: 1 },
  ])
  expect(took?.samples.find(({ labels }) => labels?.le === '0.025')?.value).toBe(2)
  expect(took?.samples.at(-2)).toEqual({ suffix: '_sum', value: 33.02 })
  expect(took?.samples.at(-1)).toEqual({ suffix: '_count', value: 4 })
})
