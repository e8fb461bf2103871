import { describe, expect, it } from 'vitest'
import { failureText, serversText, toldTo, type WorkerEvent } from './worker-log.js'

const pass = { originator: 'alice', subagent: 'greeter', id: 'some-given-id' }
const error = { code: 'E011', message: 'no such \u001b[31mtable' } as const

describe('what a worker says', () => {
  it('tells pass, code and stack, without control characters', () => {
    const text = failureText({ subagent: 'greeter', pass, attempt: 2, error, thrown: new Error('no such table') })
    expect(text).toMatch(/^greeter: some-given-id from alice, attempt 2: E011 no such \[31mtable\nError: no such table\n +at /)
    expect(failureText({ subagent: 'greeter', pass, attempt: 2, error, thrown: 'text' })).not.toContain('\n')
  })

  it('shows no credentials of a server', () => {
    expect(serversText(['nats://bob:secret@host:4222', 'nats://other:4222'])).toBe('nats://host:4222, nats://other:4222')
  })

  it('goes to whom it was given, else to the process, and never throws', () => {
    const event: WorkerEvent = { kind: 'lost', text: 'lost' }
    const lines: string[] = []
    const events: WorkerEvent[] = []
    const say = (line: string) => void lines.push(line)
    toldTo({ say }, undefined)(event)
    toldTo({ say }, (one) => void events.push(one))(event)
    toldTo({}, undefined)(event)
    toldTo({ say }, () => {
      throw new Error('bug')
    })(event)
    expect([lines, events]).toEqual([['lost'], [event]])
  })
})
