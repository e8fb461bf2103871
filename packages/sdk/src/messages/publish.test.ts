import type { PublishResult } from '@passover/bus'
import { describe, expect, it } from 'vitest'
import type { Deps } from '../runtime/dependencies.js'
import { publishUnguarded } from './publish.js'

const KEY = { originator: 'alice', subagent: 'audit', id: 'an-id-of-old' }
const CLOSED: PublishResult = { kind: 'refused', reason: 'closed', description: 'no stream takes it' }
const FULL: PublishResult = { kind: 'refused', reason: 'full', description: 'full' }
const UNKNOWN: PublishResult = { kind: 'unknown', description: 'timeout' }
const STORED: PublishResult = { kind: 'stored', sequence: 7 }

/** A stream that gives these outcomes, the last one again and again; time goes on by what is waited. */
function publishing(outcomes: PublishResult[], answer: unknown): Promise<string> {
  let now = 0
  const left = [...outcomes]
  const next = () => Promise.resolve((left.length > 1 ? left.shift() : left[0]) as PublishResult)
  const after = (ms: number, fn: () => void) => {
    now += ms
    queueMicrotask(fn)
    return { [Symbol.dispose]: () => undefined }
  }
  const bus = { publish: next, ask: () => Promise.resolve(answer), connected: true }
  const deps = { bus, clock: { now: () => now, monotonic: () => now, after } } as unknown as Deps
  return publishUnguarded(deps, { subject: 'request.audit.alice' }, KEY).then(
    () => 'stored',
    (error: { code: string }) => error.code,
  )
}

describe('a request that is not taken', () => {
  it.each<[string, PublishResult[], unknown, string]>([
    ['is E014 where requests are closed', [CLOSED], { ok: true, now: 1, requests: 'closed' }, 'E014'],
    ['is E014 where an audit of before answers', [CLOSED], { ok: true, now: 1 }, 'E014'],
    ['is tried again where the stream has no leader just now', [CLOSED, CLOSED, STORED], { ok: true, now: 1, requests: 'open' }, 'stored'],
    ['is tried again where nobody can look', [CLOSED, STORED], { ok: false, error: { code: 'E040', message: 'not read' } }, 'stored'],
    ['is E014 where the stream is full', [FULL], undefined, 'E014'],
    ['is not E014 once an answer was missed: it may be stored', [UNKNOWN, CLOSED], { ok: true, now: 1, requests: 'closed' }, 'E040'],
    ['is not E014 once an answer was missed, full or not', [UNKNOWN, FULL], undefined, 'E040'],
    ['is E040 where nobody answers', [UNKNOWN], undefined, 'E040'],
  ])('%s', async (_, outcomes, answer, code) => {
    expect(await publishing(outcomes, answer)).toBe(code)
  })
})
