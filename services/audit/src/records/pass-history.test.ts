import { encode } from '@passover/bus'
import { acceptReturn } from '@passover/core'
import { describe, expect, it } from 'vitest'
import { KEY, output, returnOf } from '../../testing/samples.js'
import type { PassMemory } from '../pass/pass-memory.js'
import { buildPassHistory, returnedOf } from './pass-history.js'

/** The artifacts of an output, as the record reads them. */
function read(artifacts: unknown[]) {
  const { stored, fact } = returnOf(3, {})
  const body = encode({ v: 1, output: { ...output({}), artifacts } })
  const returned = returnedOf({ fact: fact as never, body, framed: undefined, content_type: stored.headers.get('Content-Type') })
  if (!('output' in returned)) throw new Error('an error')
  const accepted = acceptReturn(returned.output, KEY)
  return accepted.ok
    ? accepted.output.artifacts.map((one) => ('severity' in one ? `${one.type} ${one.severity}` : one.type))
    : accepted.error
}

describe('a return that tells an error and an output', () => {
  it.each([null, 'text', { code: 'E011', message: 'x' }])('is an error, as its originator reads it: %j', (error) => {
    const { stored, fact } = returnOf(3, {})
    const body = encode({ v: 1, error, output: output({}), brief: {} })
    const returned = returnedOf({ fact: fact as never, body, framed: undefined, content_type: stored.headers.get('Content-Type') })
    expect(returned).toEqual({ v: 1, error })
  })
})

describe('a request that was refused', () => {
  it('has the session that its body names, as UTF-8 can store it', () => {
    const sessionOf = (body: object) =>
      buildPassHistory({
        key: KEY,
        noted: [],
        request: { body: Buffer.from(JSON.stringify(body)), content_type: 'application/json' },
        step: () => undefined,
      } as unknown as PassMemory).session_id
    expect(sessionOf({ session_id: 'a session' })).toBe('a session')
    expect(sessionOf({ session_id: 'x\ud800' })).toBe('x\ufffd')
    expect(sessionOf({ work_context: { session_id: '\udc00' } })).toBe('\ufffd')
  })
})

describe('artifacts that travel apart', () => {
  it('are told by their kind, and leave an output that is acceptable', () => {
    const part = 'artifact:0'
    expect(read([{ part }, { part, kind: 'tool_result' }, { part, kind: 'file_modification' }])).toEqual([
      'message',
      'message',
      'file_modification',
    ])
    expect(
      read([
        { part, kind: 'finding', severity: 'error' },
        { part, kind: 'finding', severity: 'info' },
      ]),
    ).toEqual(['finding error', 'message'])
  })
})
