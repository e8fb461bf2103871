import { describe, expect, it } from 'vitest'
import { attemptText, createWorkerLogger, serversText, type WorkerEvent } from './worker-events.js'

const pass = { originator: 'alice', subagent: 'greeter', id: 'some-given-id' }
const what = 'E011 no such \u001b[31mtable'

describe('what a worker says', () => {
  it('tells pass, code and stack, with control characters made visible', () => {
    const text = attemptText({ pass, attempt: 2, what, thrown: new Error('no such table') })
    expect(text).toMatch(/^greeter: some-given-id from alice, attempt 2: E011 no such ␛\[31mtable\nError: no such table\n +at /)
    expect(attemptText({ pass, attempt: 2, what, thrown: 'text' })).not.toContain('\n')
  })

  it('shows no credentials of a server', () => {
    expect(serversText(['nats://bob:secret@host:4222', 'nats://other:4222'])).toBe('nats://host:4222, nats://other:4222')
  })

  it('goes to whom it was given, else to the process, and never throws', () => {
    const event: WorkerEvent = { kind: 'lost', text: 'lost' }
    const lines: string[] = []
    const events: WorkerEvent[] = []
    const say = (line: string) => void lines.push(line)
    createWorkerLogger({ say }, undefined)(event)
    createWorkerLogger({ say }, (one) => void events.push(one))(event)
    createWorkerLogger({}, undefined)(event)
    createWorkerLogger({ say }, () => {
      throw new Error('bug')
    })(event)
    expect([lines, events]).toEqual([['lost'], [event]])
  })

  it('tells of passes that went well only whom it was given', () => {
    const event: WorkerEvent = { kind: 'returned', text: 'returned', pass, attempt: 1, status: 'completed' }
    const lines: string[] = []
    const events: WorkerEvent[] = []
    createWorkerLogger({ say: (line) => void lines.push(line) }, undefined)(event)
    createWorkerLogger({}, (one) => void events.push(one))(event)
    expect([lines, events]).toEqual([[], [event]])
  })
})
