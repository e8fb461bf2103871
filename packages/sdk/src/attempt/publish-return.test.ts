import { type AdvanceOptions, type Plan, readHeaders, Subjects } from '@passover/bus'
import type { Step } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { publishReturn, type ReturnContext } from './publish-return.js'
import type { Run } from './run.js'

const key = { originator: 'alice', subagent: 'audit', id: 'some-given-id' }
const GUARD = 5
const trusted = { type: 'step', key, time: 0, untrusted: undefined }
const withoutEffect = { ...trusted, kind: 'held', by: 'passover', sequence: 7, attempt: 1, untrusted: 'bounced' } as unknown as Step
const ownReturn = (sequence: number) =>
  ({ ...trusted, kind: 'return', by: key.subagent, sequence, attempt: 1, nonce: 'mine' }) as unknown as Step

/** Publishes a return whose plan is made once for each of these reads of the journal. No publish gets an answer. */
async function publishWithoutAnswer(reads: Step[][]) {
  const subjects = new Subjects()
  const guards: (number | undefined)[] = []
  const advance = async <T>(_key: unknown, plan: (steps: Step[], tries: number) => Plan<T>, _options: AdvanceOptions<T>) => {
    for (const [tries, steps] of reads.entries()) {
      const next = plan(steps, tries)
      if ('done' in next) return { ok: true, value: next.done }
      guards.push(next.publish.guard?.sequence)
    }
    return { ok: false, outcome: { kind: 'unknown', description: 'no answer' } }
  }
  const bus = { subjects, publish: async () => ({ kind: 'unknown' }), journal: { advance }, clockMeasured: false }
  const context = { deps: { bus, clock: { monotonic: () => 0 } }, agent: 'audit', rules: { id_window_ms: 1e9, trust_fences: true } }
  const delivery = { headers: readHeaders('NATS/1.0\r\n') }
  const run = { key, delivery, control: {}, attempt: 1, guard: GUARD, nonce: 'mine' } as unknown as Run
  const error = { code: 'E011', message: 'it failed' } as const
  return { result: await publishReturn(context as unknown as ReturnContext, run, { error }), guards, unproved: run.unproved ?? false }
}

describe('a return that was stored, but whose publish got no answer', () => {
  it('is proved if it was published only after the last step of its attempt', async () => {
    const published = await publishWithoutAnswer([[], [ownReturn(8)]])
    expect(published).toEqual({ result: 'returned', guards: [GUARD], unproved: false })
  })

  it('is not proved if it was published after a step that does not count', async () => {
    const published = await publishWithoutAnswer([[], [withoutEffect], [withoutEffect, ownReturn(8)]])
    expect(published).toEqual({ result: 'returned', guards: [GUARD, 7], unproved: true })
  })

  it('is not proved if a lagging replica hid that step from a later read', async () => {
    const published = await publishWithoutAnswer([[], [withoutEffect], [], [ownReturn(8)]])
    expect(published).toEqual({ result: 'returned', guards: [GUARD, 7, GUARD], unproved: true })
  })
})
