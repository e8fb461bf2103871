import type { WorkerEvent } from '@passover/sdk'
import { describe, expect, it } from 'vitest'
import { WorkLog } from './log.js'

const key = { originator: 'alice', subagent: 'greeter', id: 'some-given-id' }

function logging(mode: 'human' | 'jsonl') {
  const told: unknown[] = []
  const log = new WorkLog({ mode, note: (line) => void told.push(line), stream: (document) => void told.push(document) })
  const began = (attempt: number) => log.began({ ...key, attempt, reason: 'a reason' })
  return { log, told, began }
}

const error = { code: 'E014', message: 'the output is larger than the maximum message size' } as const
const ends: { event: WorkerEvent; how: string }[] = [
  { event: { kind: 'returned', text: '', pass: key, attempt: 1, status: 'partial' }, how: 'partial' },
  { event: { kind: 'failed', text: '', pass: key, attempt: 1, error }, how: 'E014 the output is larger than the maximum message size' },
  { event: { kind: 'discarded', text: '', pass: key, attempt: 1, why: 'lost' }, how: 'lost: another attempt returned' },
  {
    event: { kind: 'discarded', text: '', pass: key, attempt: 1, why: 'ended', error: { code: 'E043', message: 'cancelled' } },
    how: 'E043 cancelled',
  },
]

describe('what `work` says of attempts', () => {
  it.each(ends)('$how', ({ event, how }) => {
    const { log, told, began } = logging('human')
    began(1)
    expect(told).toHaveLength(1)
    log.happened(event)
    expect(told[1]).toMatch(new RegExp(`^← some-given-id  ${how} in `))
  })

  it('is counted by what became of them: an attempt that lost its pass is neither completed nor failed', () => {
    const { log } = logging('human')
    for (const { event } of ends) log.happened(event)
    expect(log.sums).toEqual({ passes: 4, completed: 1, failed: 2, discarded: 1 })
  })

  it('keeps attempts of one pass apart, and tells of one that ended before its command began', () => {
    const { log, told, began } = logging('jsonl')
    began(1)
    began(2)
    log.happened({ kind: 'returned', text: '', pass: key, attempt: 2, status: 'completed' })
    log.happened({ kind: 'discarded', text: '', pass: key, attempt: 1, why: 'lost' })
    log.happened({ kind: 'failed', text: '', pass: key, attempt: 3, error })
    expect(told.slice(2)).toMatchObject([
      { event: 'ended', how: 'completed', duration_ms: expect.any(Number) },
      { event: 'ended', how: 'lost: another attempt returned', duration_ms: expect.any(Number) },
      { event: 'ended', how: expect.stringMatching(/^E014/), duration_ms: undefined },
    ])
  })
})
