import { type Fact, idTime, keyText, type PassKey, type RequestFact, type Step } from '@passover/schemas'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { step, T0, timedId } from '../../testing/samples.js'
import { foldJournal, type JournalState, next } from '../journal/state-machine.js'
import type { Due } from './due-actions.js'
import { OpenPasses } from './open-passes.js'
import { joinSnapshotChunks } from './snapshot-chunks.js'

/** Short, so that timeouts, looks and an expired id all fall within a stream of some dozens of messages. */
const WINDOW = 1_000
const RULES = { id_window_ms: WINDOW, look_after_ms: 5, again_after_ms: 1_000_000 }

const pass = (originator: string, subagent: string, id: string): PassKey => ({ originator, subagent, id })
/** A root, two children of it, a grandchild, a pass whose id expires on the way, and one whose id has no time. */
const KEYS = [
  pass('alice', 'audit', timedId(T0, 'root0000000000')),
  pass('audit', 'scout', timedId(T0, 'childA00000000')),
  pass('audit', 'scout', timedId(T0, 'childB00000000')),
  pass('scout', 'eve', timedId(T0, 'grand000000000')),
  pass('alice', 'scout', timedId(T0 - WINDOW + 30, 'old00000000000')),
  pass('bob', 'audit', 'an-id-of-my-own'),
] as const
const PARENT: Record<number, number> = { 1: 0, 2: 0, 3: 1 }

/** What a fold is told: a fact, or what was learned of a request. */
type Told = { fact: Fact } | { learn: number; id: string; timeout_ms: number } | { forget: number }

interface Op {
  what: 'request' | 'held' | 'work' | 'fence' | 'worker_return' | 'system_return' | 'cancel' | 'learn' | 'forget' | 'other'
  pass: number
  wait: number
  span: number
  odd: number
}

const ops = fc.array(
  fc.record<Op>({
    what: fc.constantFrom(
      'request',
      'request',
      'request',
      'held',
      'work',
      'work',
      'work',
      'fence',
      'fence',
      'worker_return',
      'system_return',
      'cancel',
      'learn',
      'learn',
      'forget',
      'other',
    ),
    pass: fc.nat(KEYS.length - 1),
    wait: fc.nat(3),
    span: fc.integer({ min: 1, max: 40 }),
    odd: fc.nat(7),
  }),
  { minLength: 1, maxLength: 60 },
)

/** Plays the server: honest steps are stored only where their guard would hold, a worker's without one always. */
function play(list: Op[]): Told[] {
  const told: Told[] = []
  const facts: Fact[] = []
  let time = T0
  for (const op of list) {
    time += op.wait
    const made = make(op, facts, time)
    if (!made) continue
    told.push(made)
    if ('fact' in made) facts.push(made.fact)
  }
  return told
}

function make(op: Op, facts: Fact[], time: number): Told | undefined {
  const key = KEYS[op.pass] as PassKey
  const sequence = facts.length + 1
  const { state } = journalOf(facts, key)
  const requests = facts.filter((fact) => fact.type === 'request')
  const own = requests.findLast((fact) => truth(fact) === key)
  const above = PARENT[op.pass]
  const parentJournal = above === undefined ? undefined : journalOf(facts, KEYS[above] as PassKey)
  const proof = parentJournal ? { parent: KEYS[above as number], proof: op.odd === 0 ? 1 : parentJournal.valid || undefined } : {}
  const first = { request: own?.sequence, requested_at: own?.time, ...proof }
  const fact = (kind: Step['kind'], more: Partial<Step>): Told => ({ fact: step(kind, sequence, { key, time, ...more }) })
  switch (op.what) {
    case 'request':
      return {
        fact: {
          type: 'request',
          originator: key.originator,
          subagent: key.subagent,
          sequence,
          time,
          id: op.odd < 3 ? undefined : key.id,
          timeout_ms: op.pass,
        },
      }
    case 'held':
      return state === 'none' ? fact('held', { ...first, expires_ms: op.span }) : undefined
    case 'work':
      return state === 'none' || state === 'held' ? fact('work', { ...first, timeout_ms: op.span }) : undefined
    case 'system_return':
      return state === 'done' ? undefined : fact('return', { ...first, by: 'passover', attempt: 0, code: op.odd < 4 ? 'E005' : 'E010' })
    case 'fence':
      return fact('fence', { by: key.subagent, attempt: 2 + (op.odd % 2) })
    case 'worker_return':
      return fact('return', { by: key.subagent, attempt: 1 + (op.odd % 3) })
    case 'cancel':
      return { fact: { type: 'event', kind: 'cancel', key, sender: op.odd === 0 ? key.subagent : 'carol', sequence, time } }
    case 'learn': {
      const request = requests[op.odd % Math.max(1, requests.length)]
      return request && { learn: request.sequence, id: truth(request).id, timeout_ms: op.span }
    }
    case 'forget':
      return op.odd === 0 && own ? { forget: own.sequence } : undefined
    default:
      return { fact: { type: 'other', sequence, time } }
  }
}

/** The pass that a request's body asks for: the header may be missing, `timeout_ms` carries it for this test. */
function truth(request: RequestFact): PassKey {
  return KEYS[request.timeout_ms as number] as PassKey
}

function stepsOf(facts: Fact[], key: PassKey): Step[] {
  return facts.filter((fact) => fact.type === 'step').filter((fact) => keyText(fact.key) === keyText(key))
}

function journalOf(facts: Fact[], key: PassKey): JournalState {
  return foldJournal(stepsOf(facts, key), RULES).journal
}

/**
 * What is due, told from the whole list each time, as docs/architecture/dispatcher.md#timekeeper puts it: nothing is kept between two facts.
 */
function reference(told: Told[], now: number): string[] {
  const facts = told.flatMap((one) => ('fact' in one ? [one.fact] : []))
  const due: string[] = []
  for (const key of KEYS) {
    const journal = journalOf(facts, key)
    if (journal.state !== 'held' && journal.state !== 'open') continue
    const verdict = passVerdict(facts, key, journal, now)
    if (verdict) due.push(`${keyText(key)} ${verdict} ${journal.last}`)
  }
  for (const request of facts.filter((fact) => fact.type === 'request')) {
    const verdict = requestVerdict(told, request, now)
    if (verdict) due.push(verdict)
  }
  return due.sort()
}

function passVerdict(
  facts: Fact[],
  key: PassKey,
  journal: Exclude<JournalState, { state: 'none' | 'done' }>,
  now: number,
): string | undefined {
  const begun = journal.state === 'open' ? journal.work : journal.held
  const parent = begun.parent && journalOf(facts, begun.parent)
  const open = parent?.state === 'open' ? parent : undefined
  if (cancelled(facts, key)) return 'E043'
  if (journal.state === 'open' && now >= journal.deadline) return 'E010'
  if (journal.state === 'held' && now >= Math.min(begun.time + (begun.expires_ms ?? 0), open?.deadline ?? Number.POSITIVE_INFINITY))
    return 'E013'
  return begun.parent && (!open || open.valid !== begun.proof) ? 'E043' : undefined
}

/** By somebody else than the subagent, after whatever return the pass had. */
function cancelled(facts: Fact[], key: PassKey): boolean {
  return facts.some((fact) => {
    if (fact.type !== 'event' || fact.kind !== 'cancel' || keyText(fact.key) !== keyText(key) || fact.sender === key.subagent) return false
    return !counted(facts, key).some(({ kind, sequence }) => kind === 'return' && sequence > fact.sequence)
  })
}

function counted(facts: Fact[], key: PassKey): Step[] {
  const steps = stepsOf(facts, key)
  const { ignored } = foldJournal(steps, RULES)
  return steps.filter((one) => !ignored.some((lost) => lost.step === one))
}

function requestVerdict(told: Told[], request: RequestFact, now: number): string | undefined {
  const facts = told.flatMap((one) => ('fact' in one ? [one.fact] : []))
  const at = told.findIndex((one) => 'fact' in one && one.fact === request)
  if (told.some((one) => 'forget' in one && one.forget === request.sequence)) return undefined
  let key = request.id === undefined ? undefined : truth(request)
  let timeout: number | undefined
  for (const [i, one] of told.entries()) {
    if (i < at) continue
    const before = told.slice(0, i).flatMap((each) => ('fact' in each ? [each.fact] : []))
    const named = key
    if ('learn' in one && one.learn === request.sequence) {
      key = truth(request)
      timeout = one.timeout_ms
    }
    const begun = key && ['held', 'open'].includes(journalOf(before, key).state)
    if (begun && (i === at || ('learn' in one && one.learn === request.sequence))) return undefined
    if (!('fact' in one) || one.fact.type !== 'step' || i === at) continue
    const counts = next(journalOf(before, one.fact.key), one.fact, RULES).ignored === undefined
    if (counts && (one.fact.request === request.sequence || (named && keyText(one.fact.key) === keyText(named)))) return undefined
  }
  if (key && cancelled(facts, key)) return late(key, request, now) ? `${keyText(key)} E005 0` : `${keyText(key)} E043 0`
  if (key === undefined || timeout === undefined) return now >= request.time + RULES.look_after_ms ? `look ${request.sequence}` : undefined
  if (now < request.time + timeout) return undefined
  return `${keyText(key)} ${late(key, request, now) ? 'E005' : 'E010'} 0`
}

function late(key: PassKey, request: RequestFact, now: number): boolean {
  return now - (idTime(key.id) ?? request.time) > WINDOW
}

function apply(open: OpenPasses, one: Told): void {
  if ('fact' in one) open.apply(one.fact)
  else if ('learn' in one) open.learn(one.learn, { key: { id: one.id }, timeout_ms: one.timeout_ms })
  else open.forget(one.forget)
}

/** Server's time of the last message: nobody asks what is due before it. */
function end(told: Told[]): number {
  return Math.max(T0, ...told.map((one) => ('fact' in one ? one.fact.time : 0)))
}

function text(due: Due[]): string[] {
  return due.map((one) => (one.kind === 'look' ? `look ${one.request.sequence}` : `${keyText(one.key)} ${one.code} ${one.guard}`)).sort()
}

const times = fc.array(fc.nat(90), { minLength: 1, maxLength: 6 })

describe('the fold of open passes', () => {
  it('finds due what a naive reading of the whole stream finds', () => {
    const seen = new Set<string>()
    fc.assert(
      fc.property(ops, fc.nat(90), (list, after) => {
        const told = play(list)
        const open = new OpenPasses(RULES)
        for (const one of told) apply(open, one)
        const now = end(told) + after
        const expected = reference(told, now)
        const nextAt = open.nextAt()
        expect(text(open.due(now))).toEqual(expected)
        expect(nextAt !== undefined && nextAt <= now).toBe(expected.length > 0)
        for (const due of expected) seen.add(due.replace(/^.* (\S+) \d+$|^(look).*$/, '$1$2'))
        const facts = told.flatMap((one) => ('fact' in one ? [one.fact] : []))
        for (const key of KEYS) {
          const journal = journalOf(facts, key)
          const begun = journal.state === 'held' || journal.state === 'open'
          expect(open.journalOf(key)).toEqual(
            begun ? expect.objectContaining({ state: journal.state, last: journal.last, valid: journal.valid }) : undefined,
          )
        }
      }),
      { numRuns: 400 },
    )
    expect([...seen].sort()).toEqual(['E005', 'E010', 'E013', 'E043', 'look'])
  }, 60_000)

  it('gives out each thing once, however often it is asked', () => {
    fc.assert(
      fc.property(ops, times, (list, asks) => {
        const told = play(list)
        const open = new OpenPasses(RULES)
        for (const one of told) apply(open, one)
        const given = [...asks].sort((a, b) => a - b).flatMap((after) => open.due(end(told) + after))
        expect(new Set(given.map((due) => due.request?.sequence ?? (due.kind === 'end' && keyText(due.key)))).size).toBe(given.length)
        expect(given.length).toBe(reference(told, end(told) + Math.max(...asks)).length)
      }),
      { numRuns: 100 },
    )
  }, 60_000)

  it('goes on from a snapshot at any point as if there had been none', () => {
    fc.assert(
      fc.property(ops, fc.nat(60), fc.nat(90), (list, cut, after) => {
        const told = play(list)
        const through = new OpenPasses(RULES)
        const before = new OpenPasses(RULES)
        for (const one of told) apply(through, one)
        for (const one of told.slice(0, cut)) apply(before, one)
        const whole = before.snapshot()
        // Packed only when the fold has gone on: a snapshot is of the moment at which it was begun.
        const slices = before.slices(3)
        for (const one of told.slice(cut)) apply(before, one)
        const joined = joinSnapshotChunks(slices)
        expect(joined).toEqual(whole)
        const restored = OpenPasses.restore(JSON.parse(JSON.stringify(joined)), RULES)
        if (!restored) throw new Error('not restored')
        for (const one of told.slice(cut)) apply(restored, one)
        expect(restored.snapshot()).toEqual(through.snapshot())
        const counts = (open: OpenPasses) => [open.size, open.unanswered, open.position, Math.max(open.nextAt() ?? 0, end(told))]
        expect(counts(restored)).toEqual(counts(through))
        for (const key of KEYS) expect(restored.journalOf(key)).toEqual(through.journalOf(key))
        expect(text(restored.due(end(told) + after))).toEqual(text(through.due(end(told) + after)))
      }),
      { numRuns: 300 },
    )
  }, 60_000)
})
