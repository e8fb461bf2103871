import { describe, expect, it } from 'vitest'
import { unmetHttpRequest, unmetPortRequest } from '../commands/installation/up.js'
import { isStarting } from '../connection/project-directory.js'
import { serverExitText } from './supervised-server.js'

describe('the server of a project', () => {
  it('that ended by itself says how', () => {
    expect(serverExitText({ code: null, signal: 'SIGKILL' })).toContain('(SIGKILL)')
    expect(serverExitText({ code: 2, signal: null })).toContain('(exit code 2)')
  })

  it('that runs already may have another port than is asked for', () => {
    expect(unmetPortRequest('nats://127.0.0.1:4222', 4223)).toBe(4223)
    expect(unmetPortRequest('nats://127.0.0.1:4222', 4222)).toBeUndefined()
    expect(unmetPortRequest('nats://127.0.0.1:4222', undefined)).toBeUndefined()
    expect(unmetPortRequest('', 4223)).toBeUndefined()
  })
  it('that is just starting has not said yet what it serves', () => {
    const file = { url: 'nats://127.0.0.1:4222', user: 'u', password: 'p', pid: 7, health: 'http://127.0.0.1:1' }
    const { health: _, ...begun } = file
    expect([isStarting(undefined, 7), isStarting(begun, 7), isStarting(file, 8), isStarting(file, 7)]).toEqual([true, true, true, false])
  })
  it('that runs already may serve no HTTP API, or elsewhere than asked for', () => {
    expect(unmetHttpRequest(undefined, undefined)).toBeUndefined()
    expect(unmetHttpRequest(undefined, true)).toBe(true)
    expect(unmetHttpRequest(undefined, 7420)).toBe(7420)
    expect(unmetHttpRequest('http://127.0.0.1:7420', true)).toBeUndefined()
    expect(unmetHttpRequest('http://127.0.0.1:7420', 0)).toBeUndefined()
    expect(unmetHttpRequest('http://127.0.0.1:7420', 7420)).toBeUndefined()
    expect(unmetHttpRequest('http://127.0.0.1:7420', 7421)).toBe(7421)
  })
})
