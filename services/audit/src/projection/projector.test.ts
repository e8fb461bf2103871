import { type MessageHeaders, readHeaders, type StoredMessage } from '@passover/bus'
import { type EventFact, type PassKey, type RequestFact, type Step, SYSTEM } from '@passover/schemas'
import { pino } from 'pino'
import { expect, test } from 'vitest'
import { Projector, type ProjectorDeps } from './projector.js'

const REQUEST_MS = 30_000

/** A projector whose reloads are only counted; `running` says how many are under way. */
function projector() {
  const wanted: string[] = []
  const reported: number[] = []
  const sent: ((written: boolean) => void)[] = []
  const time = { now: 0, timers: [] as (() => void)[] }
  const reloads = {
    get size() {
      return wanted.length
    },
    get requests() {
      return wanted.length
    },
    want: (key: PassKey) => void wanted.push(key.id),
    hear: ({ key }: { key: PassKey }) => void wanted.push(key.id),
    knows: () => false,
    backpressure: () => undefined,
  }
  const idle = { backpressure: () => undefined }
  const deps = {
    log: pino({ level: 'silent' }),
    clock: { monotonic: () => time.now, after: (_: number, fn: () => void) => void time.timers.push(fn) },
    rules: { id_window_ms: 3_600_000 },
    records: { ...idle, send: (_slot: unknown, _record: unknown, done: (written: boolean) => void) => void sent.push(done) },
    rows: { get: () => undefined, put: () => undefined },
    ended: { note: () => undefined },
    reloader: reloads,
    violations: { ...idle, report: (_: PassKey, sequence: number) => void reported.push(sequence) },
    schemas: idle,
    inbox: { ...idle, note: () => undefined },
    acknowledged: idle,
    undelivered: { note: () => undefined },
    changed: () => undefined,
  }
  const options = { writes: () => true, open_ms: 3_000, request_ms: REQUEST_MS, ended_bytes: 1 << 20 }
  return { wanted, reported, sent, time, made: new Projector({ ...deps, isAgent: () => false } as unknown as ProjectorDeps, options) }
}

const headers: MessageHeaders = readHeaders('')

function request(sequence: number): [StoredMessage, RequestFact] {
  const time = 1_000 + sequence
  const stored = { subject: 'request.audit.alice', sequence, time, headers, data: new Uint8Array(8) }
  return [
    stored,
    { type: 'request', originator: 'alice', subagent: 'audit', id: `request-${sequence}`, sequence, time, timeout_ms: undefined },
  ]
}

test('a backlog of old requests is not read again all at once: the reader would have to wait for that', () => {
  const { made, wanted } = projector()
  for (let sequence = 1; sequence <= 5_000; sequence += 1) void made.take(...request(sequence))
  made.sweep(1_000 + REQUEST_MS)
  expect(wanted).toEqual([])
  made.sweep(7_000 + REQUEST_MS)
  expect(wanted.length).toBeGreaterThan(0)
  expect(wanted.length).toBeLessThan(100)
  expect(wanted[0]).toBe('request-1')
  expect(made.notes.size).toBe(5_000 - wanted.length)
})

// Fails where all that is due is written at once: 200 of them kept the server and a processor busy at the same time, twice a second.
test('of passes that stay open few are written at once, and the next ones a little later', () => {
  const { made } = projector()
  for (let sequence = 1; sequence <= 25; sequence += 1) void made.take(...work(sequence))
  expect(made.writeOpen(3_000)).toBe(false)
  expect(made.young.size).toBe(25)
  const more = [4_005, 10_000, 10_000, 10_000, 10_000].map((now) => [made.writeOpen(now), made.old.size])
  expect(more).toEqual([
    [false, 5],
    [true, 15],
    [false, 25],
    [false, 25],
    [false, 25],
  ])
})

/** The work step of a pass of its own. */
function work(sequence: number): [StoredMessage, Step] {
  const key = { originator: 'alice', subagent: 'audit', id: `pass-${String(sequence).padStart(8, '0')}` }
  return step('work', sequence, { key, guard: { subject: `*.alice.audit.${key.id}.*`, sequence: 0 } })
}

/** A step of one pass, guarded as the first or as the next one. */
function step(kind: Step['kind'], sequence: number, more: Partial<Step> = {}): [StoredMessage, Step] {
  const key = { originator: 'alice', subagent: 'audit', id: 'no-time-in-it' }
  const by = kind === 'work' ? 'medium' : SYSTEM
  const guard = { subject: `*.alice.audit.${key.id}.*`, sequence: kind === 'work' ? 0 : sequence - 1 }
  const fact = { type: 'step', kind, key, by, sequence, time: 1_000 + sequence, attempt: 1, guard, ...more } as Step
  return [{ subject: `${kind}.alice.audit.${key.id}.${by}`, sequence, time: fact.time, headers, data: new Uint8Array(8) }, fact]
}

/** An event of the pass of `step`, which its subagent stores. */
function late(sequence: number): [StoredMessage, EventFact] {
  const key = { originator: 'alice', subagent: 'audit', id: 'no-time-in-it' }
  const fact: EventFact = { type: 'event', kind: 'late', key, sender: 'audit', sequence, time: 1_000 + sequence }
  return [{ subject: `event.alice.audit.${key.id}.late.audit`, sequence, time: fact.time, headers, data: new Uint8Array(8) }, fact]
}

/** A pass that has ended, and of which more and more is stored. */
function growing() {
  const all = projector()
  let sequence = 2
  const grow = (messages: number) => {
    for (let n = 0; n < messages; n += 1) {
      void all.made.take(...late(++sequence))
      all.sent.at(-1)?.(true)
    }
    return all.sent.length
  }
  void all.made.take(...step('work', 1))
  void all.made.take(...step('return', 2, { code: 'E010' }))
  return { ...all, grow }
}

// Fails where the record is made again for each message: 10,000 of them kept the audit 40 s behind, and each erasure as long.
test('the record of a pass that grows is made once in a while, and not for what it does not say', () => {
  const { grow, time } = growing()
  const short = grow(64)
  expect(grow(900) - short).toBeLessThan(5)
  time.now = 2_000
  for (const timer of time.timers.splice(0)) timer()
  const long = grow(0)
  expect(long - short).toBeLessThan(6)
  grow(200)
  time.now = 4_000
  for (const timer of time.timers.splice(0)) timer()
  const full = grow(0)
  // It notes no more.
  for (let ms = 0; ms < 10; ms += 1) {
    time.now += 5_000
    expect(grow(10)).toBe(full)
  }
})

test('no record is made of a pass that was erased while the last one was being written', () => {
  const { made, sent, grow } = growing()
  const before = grow(0)
  void made.take(...late(3))
  made.forget(new Set([1, 2]))
  sent.at(-1)?.(true)
  expect(sent.length).toBe(before)
  expect(made.writing).toBe(0)
})

test('an id without a time that is used again when its pass is gone begins another pass, and breaks no rule', () => {
  const { made, reported } = projector()
  void made.take(...step('work', 1))
  void made.take(...step('return', 2, { code: 'E010' }))
  expect(made.find('alice/audit/no-time-in-it')?.journal).toMatchObject({ state: 'done', return: { sequence: 2 } })
  // What nobody guarded may have been stored while the pass was there.
  void made.take(...step('work', 3, { guard: undefined }))
  expect(reported).toEqual([3])
  void made.take(...step('return', 4, { code: 'E005', guard: { subject: '*.alice.audit.no-time-in-it.*', sequence: 0 } }))
  expect(made.find('alice/audit/no-time-in-it')?.journal).toMatchObject({ state: 'done', return: { sequence: 2 } })
  void made.take(...step('work', 5))
  expect(made.find('alice/audit/no-time-in-it')?.journal).toMatchObject({ state: 'open', work: { sequence: 5 } })
  expect(reported).toEqual([3])
})

test('a first step that came after its id had expired is none of another pass', () => {
  const { made, reported } = projector()
  void made.take(...step('work', 1))
  void made.take(...step('return', 2, { code: 'E010' }))
  void made.take(...step('work', 3, { requested_at: 1, time: 10_000_000 }))
  expect(made.find('alice/audit/no-time-in-it')?.journal).toMatchObject({ state: 'done', return: { sequence: 2 } })
  expect(reported).toEqual([3])
})

/** What becomes of the malformed request with sequence 1. */
const BAD = { originator: 'alice', subagent: 'audit', id: 'bad-000000001' }
const asked = () => {
  const [stored, fact] = request(1)
  return [stored, { ...fact, id: undefined }] as const
}
const kept = (): [StoredMessage, EventFact] => {
  const fact: EventFact = { type: 'event', kind: 'dead_letter', key: BAD, sender: SYSTEM, sequence: 2, time: 1_002 }
  return [
    { subject: `event.alice.audit.${BAD.id}.dead_letter.${SYSTEM}`, sequence: 2, time: 1_002, headers, data: new Uint8Array(8) },
    fact,
  ]
}
const answered = () => {
  const guard = { subject: `*.alice.audit.${BAD.id}.*`, sequence: 0 }
  return step('return', 3, { key: BAD, code: 'E005', guard, request: 1, requested_at: 1_001 })
}

test('a malformed request is known when it was answered, from what was read of it one after the other', () => {
  const { made, wanted } = projector()
  void made.take(...asked())
  void made.take(...kept())
  expect(made.find('alice/audit/bad-000000001')).toBeUndefined()
  void made.take(...answered())
  const memory = made.find('alice/audit/bad-000000001')
  expect(memory?.journal).toMatchObject({ state: 'done', return: { sequence: 3 } })
  expect(memory?.request?.sequence).toBe(1)
  expect(memory?.noted.map(({ fact }) => fact.sequence)).toEqual([2, 3])
  expect(wanted).toEqual([])
})

test.each([
  ['its request', [kept(), answered()], 2],
  ['that its bytes were kept', [asked(), answered()], 1],
  ['what it is about, which is another', [asked(), [kept()[0], { ...kept()[1], key: { ...BAD, subagent: 'scout' } }], answered()], 1],
] as const)('a malformed request is read again where %s was not read', (_, messages, times) => {
  const { made, wanted } = projector()
  for (const [stored, fact] of messages) void made.take(stored, fact)
  expect(wanted).toEqual(Array.from({ length: times }, () => BAD.id))
})

test('what was kept of a malformed request that nobody answers is forgotten with it, and read when it is answered after all', () => {
  const { made, wanted } = projector()
  void made.take(...asked())
  void made.take(...kept())
  made.sweep(2_000 + REQUEST_MS)
  expect(made.notes.size).toBe(0)
  void made.take(...answered())
  expect(wanted).toEqual([BAD.id])
})
