import { describe, expect, it } from 'vitest'
import { ID, type Line, NOW, streamOf } from '../../testing/stored-messages.js'
import { checkHistory, checkStarted, type HistoryLine, historyLines } from './history.js'
import { judge } from './judge.js'

const KEY = `alice/audit/${ID}`
const request: Line = { subject: 'request.audit.alice', headers: { 'Passover-Id': ID } }
const work: Line = { subject: `work.alice.audit.${ID}.high`, headers: { guard: 0, 'Passover-Timeout': 5_000 } }
const back: Line = { subject: `return.alice.audit.${ID}.audit`, headers: { guard: 2, 'Passover-Attempt': 1 } }
const whole = judge(streamOf([request, work, back]), NOW)
const open = judge(streamOf([request, work]), NOW)
const nothing = judge([], NOW)

const asked: HistoryLine = { t: 'asked', id: ID, to: 'audit', at: NOW }
const stored: HistoryLine = { t: 'stored', id: ID, at: NOW }
const told = (outcome: string, attempt?: number): HistoryLine => ({
  t: 'told',
  id: ID,
  at: NOW,
  outcome,
  ...(attempt !== undefined && { attempt }),
})

describe('what an originator was told', () => {
  it('is right where the stream says the same, however often it asked', () => {
    const { violations, counts } = checkHistory('alice', [asked, stored, told('ok', 1), told('ok', 1)], whole)
    expect(violations).toEqual([])
    expect(counts.P1).toEqual({ 'asked again (alice)': 1 })
  })

  it('is nothing where it could not reach the server', () => {
    expect(checkHistory('alice', [asked, told('E040')], nothing).violations).toEqual([])
    expect(checkHistory('alice', [asked, told('E041')], nothing).violations).toEqual([])
    expect(checkHistory('alice', [asked, told('E041')], open).violations).toHaveLength(1)
  })

  it.each<[string, 'P1' | 'P2', HistoryLine[], ReturnType<typeof judge>, RegExp]>([
    ['a request that was acknowledged and is gone', 'P2', [asked, stored], nothing, /the stream has nothing of it/],
    ['a return that nobody made', 'P2', [asked, told('ok')], open, /the stream has no return/],
    ['an end that is another one', 'P2', [asked, told('E010')], whole, /told E010, the stream says ok/],
    ['a return of another attempt', 'P1', [asked, told('ok', 2)], whole, /told of attempt 2, the return is of 1/],
  ])('names %s', (_, promise, lines, judgement, what) => {
    const { violations } = checkHistory('alice', lines, judgement)
    expect(violations).toHaveLength(1)
    expect(violations[0]).toMatchObject({ promise })
    expect(violations[0]?.what).toMatch(what)
  })

  it('names two answers that differ', () => {
    const { violations } = checkHistory('alice', [asked, told('ok', 1), told('E010')], whole)
    expect(violations.map(({ what }) => what).join('\n')).toMatch(/asked again, told something else/)
  })

  it('is read from whole lines alone', () => {
    expect(historyLines(`${JSON.stringify(asked)}\n{"t":"told","id`)).toEqual([asked])
  })
})

describe('runs of handlers', () => {
  it('are right where the stream has their attempts', () => {
    expect(checkStarted([`${KEY} 1`], whole).violations).toEqual([])
  })

  it.each<[string, string[], ReturnType<typeof judge>, RegExp]>([
    ['an attempt that began twice', [`${KEY} 1`, `${KEY} 1`], whole, /began 2 times/],
    ['a run of what was never dispatched', [`${KEY} 1`], nothing, /began without work/],
    ['an attempt without its fence', [`${KEY} 2`], whole, /the stream knows 1/],
  ])('names %s', (_, lines, judgement, what) => {
    const { violations } = checkStarted(lines, judgement)
    expect(violations).toHaveLength(1)
    expect(violations[0]?.promise).toBe('P1')
    expect(violations[0]?.what).toMatch(what)
  })
})
