import { dirname } from 'node:path'
import { describe, expect, it } from 'vitest'
import { waitingText } from '../passes/request-progress.js'
import { buildProgram } from '../program.js'
import { isInteractive, wantsColor } from './terminal.js'
import { formatCommands } from './text.js'

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
    expect(isInteractive(all)).toBe(true)
    for (const not of [{ input: false }, { json: true }, { stdin: false }, { stdout: false }, { env: { CI: 'true' } }])
      expect(isInteractive({ ...all, ...not })).toBe(false)
  })
})

describe('commands in hints', () => {
  it('can be typed as they stand, through npx where that was used', () => {
    const hint = 'start one: `passover work echo -- cat`; see passover show 0abc, not .passover/ nor passover.log'
    expect(formatCommands(hint, {})).toBe(hint)
    expect(formatCommands(hint, { npm_command: 'exec' })).toBe(
      'start one: `npx passover work echo -- cat`; see npx passover show 0abc, not .passover/ nor passover.log',
    )
    for (const command of buildProgram().commands)
      expect(formatCommands(`passover ${command.name()} x`, { npm_command: 'exec' })).toBe(`npx passover ${command.name()} x`)
    // A hint that went through it once stays as it is.
    expect(formatCommands('npx passover up', { npm_command: 'exec' })).toBe('npx passover up')
  })

  it('name the command as it can be found: not bare where it is only in node_modules', () => {
    const bin = '/project/node_modules/.bin'
    expect(formatCommands('passover up', { PATH: '/usr/bin' }, `${bin}/passover`)).toBe('npx passover up')
    expect(formatCommands('passover up', { PATH: `/usr/bin:${bin}` }, `${bin}/passover`)).toBe('passover up')
    expect(formatCommands('passover up', { PATH: '/usr/bin' }, '/usr/local/bin/passover')).toBe('passover up')
  })

  it('name the package where npx fetched it, because another package is called passover', () => {
    const fetched = '/home/alice/.npm/_npx/0a1b/node_modules/.bin/passover'
    expect(formatCommands('passover up', { npm_command: 'exec', PATH: dirname(fetched) }, fetched)).toBe('npx @passover/cli up')
  })
})

describe('waiting work', () => {
  it('says why', () => {
    expect(waitingText('audit', { idle: 0, running: 0, queued: 1, workers: 0 })).toContain('Queued: no workers on `audit`; to start one')
    expect(waitingText('audit', { idle: 0, running: 3, queued: 1, workers: 1 })).toContain(
      'every worker on `audit` is busy (3 running, 1 waiting)',
    )
    expect(waitingText('audit', { idle: 0, running: 0, queued: 2, workers: 1 })).toBe(
      'Queued: no worker on `audit` accepts work at the moment (2 waiting)',
    )
    expect(waitingText('audit', { idle: 1, running: 1, queued: 0, workers: 2 })).toBe('A worker of `audit` received it.')
  })
})
