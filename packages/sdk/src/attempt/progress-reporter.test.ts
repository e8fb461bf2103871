import { type Bus, readHeaders, Subjects } from '@passover/bus'
import type { Clock } from '@passover/core'
import { describe, expect, it } from 'vitest'
import { flushProgress, hasUnpublishedProgress, publishProgress } from './progress-reporter.js'
import type { ReturnContext } from './publish-return.js'
import type { Run } from './run.js'

/** A bus that stores what it is given when it is told to. */
function stage() {
  const kinds: string[] = []
  const stored: (() => void)[] = []
  const subjects = new Subjects()
  const bus = {
    subjects,
    publish: ({ subject }: { subject: string }) => {
      const parsed = subjects.parse(subject)
      kinds.push(parsed.kind === 'event' ? parsed.event : parsed.kind)
      return new Promise((done) => stored.push(() => done({ kind: 'stored' })))
    },
  } as unknown as Bus
  const timers: (() => void)[] = []
  const clock = {
    now: () => 10_050,
    after: (_ms: number, fn: () => void) => {
      timers.push(fn)
      return { [Symbol.dispose]: () => undefined }
    },
  } as unknown as Clock
  const context = { deps: { bus, clock }, agent: 'audit' } as unknown as ReturnContext
  const key = { originator: 'alice', subagent: 'audit', id: 'some-given-id' }
  const delivery = { headers: readHeaders('NATS/1.0\r\n') }
  const run = { key, delivery, attempt: 1, began_at: 10_000, startPublished: false, progress_at: 0 } as unknown as Run
  return { kinds, stored, timers, giver: context, run }
}

describe('what a run tells of itself', () => {
  it('is that it started before how far it is', () => {
    const { kinds, giver: context, run } = stage()
    publishProgress(context, run, 10_100)
    expect(kinds).toEqual([])
    run.progress = { message: 'half way' }
    publishProgress(context, run, 10_100)
    run.progress = { message: 'nearly' }
    publishProgress(context, run, 11_100)
    expect(kinds).toEqual(['started', 'progress', 'progress'])
  })

  it('is stored before the return', async () => {
    const { kinds, stored, giver: context, run } = stage()
    run.progress = { message: 'done' }
    let flushed = false
    const flushing = flushProgress(context, run).then(() => {
      flushed = true
    })
    expect(kinds).toEqual(['started', 'progress'])
    stored[0]?.()
    await new Promise(setImmediate)
    expect([flushed, hasUnpublishedProgress(run)]).toEqual([false, true])
    stored[1]?.()
    await flushing
    expect(hasUnpublishedProgress(run)).toBe(false)
  })

  it('holds a return up for a bounded time only', async () => {
    const { timers, giver: context, run } = stage()
    run.progress = { message: 'done' }
    const flushing = flushProgress(context, run)
    await new Promise(setImmediate)
    expect(timers).toHaveLength(1)
    timers[0]?.()
    await flushing
  })
})
