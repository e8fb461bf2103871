import { describe, expect, it } from 'vitest'
import { waitingText } from './request-progress.js'
import { mayAsk, wantsColor } from './terminal.js'
import { typed } from './text.js'

describe('colour', () => {
  it('is for terminals, unless something forbids it', () => {
    expect(wantsColor({ color: true, tty: true, env: {} })).toBe(true)
    expect(wantsColor({ color: true, tty: true, env: { NO_COLOR: '' } })).toBe(true)
    expect(wantsColor({ color: true, tty: false, env: {} })).toBe(false)
    expect(wantsColor({ color: false, tty: true, env: {} })).toBe(false)
    expect(wantsColor({ color: true, tty: true, env: { NO_COLOR: '1' } })).toBe(false)
    expect(wantsColor({ color: true, tty: true, env: { TERM: 'dumb' } })).toBe(false)
  })
})

describe('questions', () => {
  it('are asked only of a person at a terminal', () => {
    const all = { input: true, json: false, stdin: true, stdout: true, env: {} }
    expect(mayAsk(all)).toBe(true)
    for (const not of [{ input: false }, { json: true }, { stdin: false }, { stdout: false }, { env: { CI: 'true' } }])
      expect(mayAsk({ ...all, ...not })).toBe(false)
  })
})

describe('commands in hints', () => {
  it('can be typed as they stand, through npx where that was used', () => {
    const hint = 'start one: `passover work echo -- cat`; see passover show 0abc, not .passover/ nor passover.log'
    expect(typed(hint, {})).toBe(hint)
    expect(typed(hint, { npm_command: 'exec' })).toBe(
      'start one: `npx passover work echo -- cat`; see npx passover show 0abc, not .passover/ nor passover.log',
    )
    for (const command of ['apply', 'verify', 'evidence', 'replay'])
      expect(typed(`passover ${command} x`, { npm_command: 'exec' })).toBe(`npx passover ${command} x`)
  })
})

describe('waiting work', () => {
  it('says why', () => {
    expect(waitingText('audit', { idle: 0, running: 0, queued: 1, workers: 0 })).toContain('Queued: 0 workers on `audit`, start one with')
    expect(waitingText('audit', { idle: 0, running: 3, queued: 1, workers: 1 })).toContain(
      'every worker on `audit` is busy (3 running, 1 waiting)',
    )
    expect(waitingText('audit', { idle: 1, running: 1, queued: 0, workers: 2 })).toBe('A worker of `audit` has it.')
  })
})
