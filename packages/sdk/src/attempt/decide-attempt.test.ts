import { journalFilter, type Step } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { viewJournal } from '../journal/journal-view.js'
import { type DeliveryFacts, decideAttempt } from './decide-attempt.js'

const key = { originator: 'alice', subagent: 'audit', id: 'some-given-id' }
const rules = { id_window_ms: 3_600_000, trust_fences: true }
const facts: DeliveryFacts = {
  delivered: 1,
  sequence: 5,
  stored_at: 10_000,
  now: 10_050,
  connected_at: 5_000,
  clock_measured: true,
  consumer_created_at: 4_000,
  max_attempts: 3,
  timeout_ms: 30_000,
  id_window_ms: 3_600_000,
  nonce: 'mine',
}

function step(kind: Step['kind'], sequence: number, after: number, rest: Partial<Step> = {}): Step {
  const by = { held: 'passover', work: 'medium', fence: 'audit', return: 'audit' }[kind]
  return {
    type: 'step',
    kind,
    key,
    by,
    sequence,
    time: 10_000,
    attempt: 0,
    guard: { sequence: after, subject: journalFilter(key) },
    ...rest,
  }
}
const work = step('work', 5, 0)
const fence = (attempt: number, sequence = 7, after = 5, nonce = 'other') => step('fence', sequence, after, { attempt, nonce })
const decide = (change: Partial<DeliveryFacts>, ...steps: Step[]) => decideAttempt({ ...facts, ...change }, viewJournal(steps, rules))

describe('decideAttempt', () => {
  it('runs a young first delivery unread', () => {
    expect(decideAttempt(facts)).toEqual({ kind: 'run', attempt: 1, guard: 5, proof: 5 })
  })

  it('reads what was delivered before, is old, or is older than consumer or connection (rule 2)', () => {
    const read = { kind: 'read' }
    expect(decideAttempt({ ...facts, delivered: 2 })).toEqual(read)
    expect(decideAttempt({ ...facts, now: 12_000 })).toEqual(read)
    expect(decideAttempt({ ...facts, connected_at: 10_000 })).toEqual(read)
    expect(decideAttempt({ ...facts, consumer_created_at: 10_001 })).toEqual(read)
    expect(decideAttempt({ ...facts, consumer_created_at: undefined })).toEqual(read)
  })

  it('takes nothing for first while the server`s time is not known', () => {
    expect(decideAttempt({ ...facts, clock_measured: false })).toEqual({ kind: 'read' })
    expect(decide({ clock_measured: false }, work)).toEqual({ kind: 'fence', attempt: 2, guard: 5 })
  })

  it('begins nothing when the work step is not found', () => {
    expect(decide({})).toEqual({ kind: 'leave', why: 'not_found' })
    expect(decide({ delivered: 2 }, step('work', 6, 0))).toEqual({ kind: 'leave', why: 'not_found' })
  })

  it('runs an old first delivery after reading, and leaves one that finds a fence (rule 1)', () => {
    expect(decide({ now: 20_000 }, work)).toEqual({ kind: 'run', attempt: 1, guard: 5, proof: 5 })
    expect(decide({ now: 20_000 }, work, fence(2))).toEqual({ kind: 'leave', why: 'lost' })
  })

  it('fences what cannot be proved to be first, after the last step', () => {
    expect(decide({ delivered: 2 }, work)).toEqual({ kind: 'fence', attempt: 2, guard: 5 })
    expect(decide({ connected_at: 10_000 }, work)).toEqual({ kind: 'fence', attempt: 2, guard: 5 })
    expect(decide({ delivered: 3 }, work, fence(2))).toEqual({ kind: 'fence', attempt: 3, guard: 7 })
  })

  it('begins nothing of a pass whose deadline has passed by the server`s clock, and acknowledges it where it is ended', () => {
    const over = { now: 11_000, timeout_ms: 1_000 }
    expect(decideAttempt({ ...facts, ...over })).toEqual({ kind: 'read' })
    expect(decideAttempt({ ...facts, ...over, now: 10_999 })).toMatchObject({ kind: 'run' })
    for (const delivered of [1, 2]) {
      expect(decide({ ...over, delivered }, work)).toEqual({ kind: 'leave', why: 'over' })
      expect(decide({ ...over, delivered }, work, step('return', 6, 5, { by: 'passover' }))).toEqual({ kind: 'ended' })
    }
    // A clock of its own may be minutes fast.
    expect(decide({ ...over, clock_measured: false }, work)).toEqual({ kind: 'fence', attempt: 2, guard: 5 })
  })

  it('fences a first delivery whose work is older than an id window: a replica may still show what was deleted', () => {
    const old = { now: 10_000 + 3_600_000, timeout_ms: 86_400_000 }
    expect(decide(old, work)).toEqual({ kind: 'fence', attempt: 2, guard: 5 })
    expect(decide(old, work, fence(2))).toEqual({ kind: 'leave', why: 'lost' })
    expect(decide({ ...old, now: old.now - 1 }, work)).toEqual({ kind: 'run', attempt: 1, guard: 5, proof: 5 })
  })

  it('takes only the fence with its own nonce for its own', () => {
    expect(decide({ delivered: 2 }, work, fence(2, 7, 5, 'mine'))).toEqual({ kind: 'run', attempt: 2, guard: 7, proof: 7 })
    expect(decide({ delivered: 2 }, work, fence(2, 7, 5, 'theirs'))).toEqual({ kind: 'fence', attempt: 3, guard: 7 })
  })

  it('counts no attempt for deliveries that began none', () => {
    expect(decide({ delivered: 8 }, work)).toEqual({ kind: 'fence', attempt: 2, guard: 5 })
  })

  it('gives back a delivery whose attempts are used up, and acknowledges an ended one', () => {
    expect(decide({ delivered: 3 }, work, fence(3, 9, 7))).toEqual({ kind: 'hand_back' })
    expect(decide({ delivered: 2, max_attempts: 1 }, work)).toEqual({ kind: 'hand_back' })
    expect(decide({ delivered: 2 }, work, step('return', 9, 5, { attempt: 1 }))).toEqual({ kind: 'ended' })
    expect(decide({}, work, step('return', 9, 5, { by: 'passover', code: 'E043' }))).toEqual({ kind: 'ended' })
  })

  it('fences a first delivery that nobody is known to have begun, also when only one attempt is allowed', () => {
    const unproved = { connected_at: 10_000, max_attempts: 1 }
    expect(decide(unproved, work)).toEqual({ kind: 'fence', attempt: 2, guard: 5 })
    expect(decide(unproved, work, fence(2, 7, 5, 'mine'))).toEqual({ kind: 'run', attempt: 2, guard: 7, proof: 7 })
    expect(decide(unproved, work, fence(2, 7, 5, 'theirs'))).toEqual({ kind: 'hand_back' })
  })

  it('leaves what cannot be judged', () => {
    expect(decide({ delivered: 2 }, work, { ...step('return', 9, 5, { attempt: 1 }), guard: undefined })).toEqual({
      kind: 'leave',
      why: 'unclear',
    })
  })

  it('fences only after a step that counts: a lagging replica may hide a fence or a return behind any other (rule 8)', () => {
    const bounced: Step = { ...step('held', 9, 0), guard: undefined, untrusted: 'the server published it' }
    const unclear = { kind: 'leave', why: 'unclear' }
    expect(decide({ delivered: 2 }, work, bounced)).toEqual(unclear)
    expect(decide({ delivered: 2 }, work, fence(2), bounced)).toEqual(unclear)
    expect(decide({ connected_at: 10_000 }, work, bounced)).toEqual(unclear)
    expect(decide({ delivered: 2 }, { ...bounced, sequence: 4 }, work, fence(2))).toEqual({ kind: 'fence', attempt: 3, guard: 7 })
    expect(decide({ delivered: 2 }, work, fence(2, 7, 5, 'mine'), bounced)).toMatchObject({ kind: 'run', attempt: 2, guard: 7 })
    // It returns after the work, and so reads again what came after that.
    expect(decide({ now: 20_000 }, work, bounced)).toEqual({ kind: 'run', attempt: 1, guard: 5, proof: 5 })
  })
})
