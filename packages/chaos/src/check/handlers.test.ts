import { describe, expect, it } from 'vitest'
import { ID, type Line, NOW, OTHER_ID, streamOf } from '../../testing/stored-messages.js'
import { checkHandlers, type ProcessLocations, runLines } from './handlers.js'
import { judge } from './judge.js'
import type { CheckerOptions } from './types.js'

const ROOT = `alice/audit/${ID}`
const CHILD = `audit/lint/${OTHER_ID}`
const asked = (to: string, by: string, id: string): Line => ({ subject: `request.${to}.${by}`, headers: { 'Passover-Id': id } })
const work = (pair: string, id: string, more: object = {}): Line => ({
  subject: `work.${pair}.${id}.high`,
  headers: { guard: 0, 'Passover-Timeout': 60_000, ...more },
})
const cancelled = (after: number): Line => ({
  subject: `return.alice.audit.${ID}.passover`,
  headers: { guard: 2, 'Passover-Code': 'E043' },
  after,
})
const ended = [asked('audit', 'alice', ID), work('alice.audit', ID), cancelled(5_000)]

/** `lines`: `<pass> <what> <ms after NOW>`, of worker 1. */
function check(
  lines: readonly string[],
  stream: readonly Line[] = ended,
  more: Partial<ProcessLocations> & { options?: CheckerOptions } = {},
) {
  const text = lines.map((line) => {
    const [key, what, after] = line.split(' ')
    return `${key} 1 ${what} ${NOW + Number(after)} worker 1\n`
  })
  const { options = {}, ...where } = more
  const judgement = judge(streamOf(stream), NOW)
  return checkHandlers(
    runLines(text.join('')),
    { frozen: {}, killed: {}, now: NOW + 60_000, ...where },
    { judgement, options: { cascade_ms: 2_000, ...options } },
  )
}

describe('handlers', () => {
  it('hear in time that they are to stop, or are over by then', () => {
    const heard = check([`${ROOT} began 100`, `${ROOT} stopped 6900`, `${ROOT} over 30000`])
    expect(heard.violations).toEqual([])
    expect(heard.counts.P5).toEqual({
      'handlers to be stopped': 1,
      'died with their process': 0,
      'later than 2 s': 0,
      'slowest to stop, ms': 1_900,
    })
    expect(check([`${ROOT} began 100`, `${ROOT} over 5100`]).violations).toEqual([])
    // One that began when the pass had just ended has as long from then.
    expect(check([`${ROOT} began 6000`, `${ROOT} stopped 8000`]).violations).toEqual([])
  })

  it.each<[string, string[]]>([
    ['late', [`${ROOT} began 100`, `${ROOT} stopped 7001`]],
    ['never', [`${ROOT} began 100`]],
  ])('that hear it %s are named', (_, lines) => {
    expect(check(lines).violations).toMatchObject([
      { promise: 'P5', what: expect.stringMatching(/attempt 1 in worker 1 went on for \d+ ms after it was to stop/) },
    ])
  })

  it('may die with their process before, and not after', () => {
    const began = [`${ROOT} began 100`]
    const killed = (...after: number[]) => check(began, ended, { killed: { 'worker 1': after.map((ms) => NOW + ms) } })
    expect(killed(50, 6_000).violations).toEqual([])
    expect(killed(6_000).counts.P5).toMatchObject({ 'died with their process': 1 })
    expect(killed(7_500).violations).toHaveLength(1)
  })

  it('may be late by as long as their process stood still, or the servers were in trouble', () => {
    const lines = [`${ROOT} began 100`, `${ROOT} stopped 14000`]
    const span = [{ from: NOW + 4_000, to: NOW + 9_500 }]
    expect(check(lines).violations).toHaveLength(1)
    expect(check(lines, ended, { frozen: { 'worker 1': span } }).violations).toEqual([])
    expect(check(lines, ended, { frozen: { 'worker 2': span } }).violations).toHaveLength(1)
    expect(check(lines, ended, { options: { troubles: span } }).violations).toEqual([])
  })

  it('of a child stop with its parent, counted from the parent’s end', () => {
    const parent = { 'Passover-Parent': ROOT, 'Passover-Proof': 2 }
    const below = [
      ...ended.slice(0, 2),
      asked('lint', 'audit', OTHER_ID),
      work('audit.lint', OTHER_ID, parent),
      cancelled(5_000),
      { subject: `return.audit.lint.${OTHER_ID}.passover`, headers: { guard: 4, 'Passover-Code': 'E043' }, after: 6_900 },
    ]
    expect(check([`${CHILD} began 100`, `${CHILD} stopped 6950`], below).violations).toEqual([])
    expect(check([`${CHILD} began 100`, `${CHILD} stopped 7100`], below).violations).toHaveLength(1)
  })

  it('that were over before need no word', () => {
    expect(check([`${ROOT} began 100`, `${ROOT} over 4000`]).counts.P5).toMatchObject({ 'handlers to be stopped': 0 })
  })

  it('are counted when they are late, also where slack forgives it', () => {
    const late = check([`${ROOT} began 100`, `${ROOT} stopped 9000`], ended, { options: { cascade_ms: 32_000 } })
    expect(late).toMatchObject({ violations: [], counts: { P5: { 'later than 2 s': 1 } } })
  })

  it('that end their pass themselves are nobody’s to stop', () => {
    const own: Line = { subject: `return.alice.audit.${ID}.audit`, headers: { guard: 2, 'Passover-Attempt': 1 }, after: 5_000 }
    expect(check([`${ROOT} began 100`], [...ended.slice(0, 2), own]).counts.P5).toMatchObject({ 'handlers to be stopped': 0 })
  })
})
