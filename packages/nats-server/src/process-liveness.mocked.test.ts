import { afterEach, expect, it, vi } from 'vitest'
import { isAlive, processStarted } from './process-liveness.js'

const asked = vi.hoisted(() => [] as { env?: Record<string, string> }[])
vi.mock('node:child_process', () => ({
  execFileSync: (_command: string, _args: string[], options: { env?: Record<string, string> }) => {
    asked.push(options)
    return `Sun Nov 29 01:00:00 2026 ${options.env?.TZ}\n`
  },
}))
vi.mock('node:fs', () => ({
  readFileSync: () => {
    throw new Error('there is no such folder')
  },
}))

const { platform } = process
afterEach(() => {
  Object.defineProperty(process, 'platform', { value: platform })
  vi.unstubAllEnvs()
})

// Fails where `ps` tells it as whoever asks is used to: a lock's holder would be taken for dead from another terminal.
it('when a process began is the same in every language and time zone', () => {
  Object.defineProperty(process, 'platform', { value: 'darwin' })
  const told = ['Europe/Berlin', 'Asia/Tokyo'].map((zone) => {
    vi.stubEnv('TZ', zone)
    vi.stubEnv('LC_ALL', 'de_DE.UTF-8')
    return processStarted(7)
  })
  expect(told).toEqual(['Sun Nov 29 01:00:00 2026 UTC', 'Sun Nov 29 01:00:00 2026 UTC'])
  expect([asked[0]?.env?.LC_ALL, asked[0]?.env?.PATH, isAlive(7, told[0])]).toEqual(['C', process.env.PATH, true])
})
