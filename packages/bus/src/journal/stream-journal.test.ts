import type { Step } from '@passover/schemas'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Subjects } from '../subjects/subjects.js'
import { BusReadError } from '../types/errors.js'
import type { Plan } from '../types/journal.js'
import type { PublishResult } from '../wire/messages.js'
import type { JournalApi } from './journal-reader.js'
import { type JournalPublisher, StreamJournal } from './stream-journal.js'

const KEY = { originator: 'alice', subagent: 'audit', id: 'a-pass-of-hers' }
const subjects = new Subjects()
const lost: PublishResult = { kind: 'lost' }
const publisher: JournalPublisher = {
  publish: async () => lost,
  send: (_: unknown, settle: (outcome: PublishResult) => void) => settle(lost),
}
const plan = (_: Step[]): Plan<string> => ({
  publish: { subject: subjects.return(KEY, 'passover'), guard: { subject: subjects.journal(KEY), sequence: 1 } },
  stored: () => 'stored',
})

/** A server on which each answer takes so long; the journal has one step after another without end. */
function slowServer(ms: number) {
  let reads = 0
  const answer = (timeout_ms = 5_000) => {
    reads += 1
    vi.advanceTimersByTime(Math.min(ms, timeout_ms))
    if (ms > timeout_ms) throw new BusReadError('no answer', 'timeout')
  }
  const api = {
    call: async (_: string, { seq }: { seq?: number }, timeout_ms?: number) => {
      answer(timeout_ms)
      const time = new Date(0).toISOString()
      return { ok: true, value: { message: { subject: subjects.fence(KEY, 'audit'), seq: seq ?? 1_000_000, time } } }
    },
    direct: async (_: string, __: string, timeout_ms?: number) => answer(timeout_ms),
  }
  return { journal: new StreamJournal({ api: api as unknown as JournalApi, publisher }, subjects), reads: () => reads }
}

describe('an advance', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }))
  afterEach(() => void vi.useRealTimers())

  it.each(['leader', 'glimpse'] as const)('does not wait for an answer (%s) beyond its deadline', async (read) => {
    const { journal } = slowServer(60_000)
    const begun = performance.now()
    expect(await journal.advance(KEY, plan, { read, deadline_ms: 1_000 })).toEqual({ ok: false, outcome: lost })
    // Reads under way at the same time each move this clock.
    expect(performance.now() - begun).toBeLessThan(8_000)
  })

  // Fails where a read waits for as long as other answers: what ends passes was late by that after a cluster had a leader again (an hour of chaos).
  it('asks again soon for an answer that does not come', async () => {
    const { journal, reads } = slowServer(60_000)
    expect(await journal.advance(KEY, plan, { read: 'leader', deadline_ms: 9_000 })).toEqual({ ok: false, outcome: lost })
    expect(reads()).toBeGreaterThan(3)
  })

  it('does not go on reading a journal beyond its deadline', async () => {
    const { journal, reads } = slowServer(100)
    expect(await journal.advance(KEY, plan, { read: 'leader', deadline_ms: 1_000 })).toEqual({ ok: false, outcome: lost })
    expect(reads()).toBeLessThan(12)
  })

  it('does not go on reading for a caller that gave up', async () => {
    const abort = new AbortController()
    const { journal, reads } = slowServer(1)
    abort.abort()
    expect(await journal.advance(KEY, plan, { read: 'leader', signal: abort.signal })).toEqual({ ok: false, outcome: lost })
    expect(reads()).toBe(0)
  })
})

describe('a history', () => {
  it('searches for nothing that is not there: the server serves nobody else meanwhile', async () => {
    const asked: object[] = []
    const api = {
      call: async (_: string, query: object) => {
        asked.push(query)
        return { ok: false, code: 404, err_code: 10_037, description: 'no message found' }
      },
    }
    const journal = new StreamJournal({ api: api as unknown as JournalApi, publisher }, subjects)
    expect(await journal.history(KEY)).toEqual([])
    expect(asked).toEqual([subjects.decisions(KEY), subjects.journal(KEY), subjects.events(KEY)].map((last_by_subj) => ({ last_by_subj })))
  })
})

describe('a delete that the server says failed', () => {
  const journalWith = (left: 'there' | 'gone') => {
    const message = { subject: subjects.work(KEY, 'low'), seq: 7, time: new Date(0).toISOString() }
    const answers: Record<string, object> = {
      'STREAM.MSG.DELETE.PASSOVER': { ok: false, code: 500, err_code: 10_057, description: 'message delete not permitted' },
      'STREAM.MSG.GET.PASSOVER':
        left === 'there' ? { ok: true, value: { message } } : { ok: false, code: 404, err_code: 10_037, description: 'no message found' },
    }
    const api = { call: async (call: string) => answers[call] }
    return new StreamJournal({ api: api as unknown as JournalApi, publisher }, subjects)
  }

  it('is one of what is gone where nothing is there any more', async () => {
    expect(await journalWith('gone').deleteMessage(7)).toBe(true)
  })

  it('is none where the stream lets nothing be deleted', async () => {
    await expect(journalWith('there').deleteMessage(7)).rejects.toThrow('not permitted')
  })
})
