import type { PassKey } from '@passover/schemas'
import { EVENT_KINDS, PRIORITIES, STEP_KINDS } from '@passover/schemas'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { RawHeaders } from '../wire/headers.js'
import type { StoredMessage } from '../wire/messages.js'
import type { ParsedSubject } from './subject-facts.js'
import { Subjects } from './subjects.js'

const word = fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9_-]{0,20}$/)
const id = fc.stringMatching(/^[A-Za-z0-9_-]{9,40}$/).filter((text) => !text.startsWith('bad-'))
const bad = fc.integer({ min: 1, max: 10 ** 15 }).map((n) => `bad-${n}`)
const key: fc.Arbitrary<PassKey> = fc.record({ originator: word, subagent: word, id: fc.oneof(id, bad) })
const subjects = fc
  .option(fc.stringMatching(/^[A-Za-z0-9_-]{1,10}(\.[A-Za-z0-9_-]{1,10}){0,2}$/), { nil: undefined })
  .map((prefix) => new Subjects(prefix))

/** A subject, as built, with what it must parse to. */
const said: fc.Arbitrary<(s: Subjects) => [string, ParsedSubject]> = fc.oneof(
  fc.tuple(word, word).map(([subagent, originator]) => (s: Subjects) => [
    s.request(subagent, originator),
    { kind: 'request', subagent, originator },
  ]),
  fc.tuple(fc.constantFrom(...STEP_KINDS), key, word).map(([step, k, by]) => (s: Subjects) => [
    s.step(step, k, by),
    { kind: 'step', step, key: k, by },
  ]),
  fc.tuple(key, word, word).map(([k, item, person]) => (s: Subjects) => [
    s.decision(k, item, person),
    { kind: 'decision', key: k, item, person },
  ]),
  fc.tuple(key, fc.constantFrom(...EVENT_KINDS), word).map(([k, event, sender]) => (s: Subjects) => [
    s.event(k, event, sender),
    { kind: 'event', event, key: k, sender },
  ]),
  fc.tuple(key, word).map(([k, by]) => (s: Subjects) => [s.returned(k, by), { kind: 'returned', key: k, by }]),
  word.map((originator) => (s: Subjects) => [s.acknowledged(originator), { kind: 'acknowledged', originator }]),
  word.map((originator) => (s: Subjects) => [s.decided(originator), { kind: 'decided', originator }]),
  word.map((person) => (s: Subjects) => [s.policy(person), { kind: 'policy', person }]),
  word.map((person) => (s: Subjects) => [s.agent(person), { kind: 'agent', person }]),
  word.map((person) => (s: Subjects) => [s.custody(person), { kind: 'custody', person }]),
  word.map((asker) => (s: Subjects) => [s.ask(asker), { kind: 'ask', asker }]),
  word.map((agent) => (s: Subjects) => [s.register(agent), { kind: 'register', agent }]),
) as fc.Arbitrary<(s: Subjects) => [string, ParsedSubject]>

/** NATS matching of a literal subject against a filter. */
function matches(filter: string, subject: string): boolean {
  const wanted = filter.split('.')
  const tokens = subject.split('.')
  for (const [at, token] of wanted.entries()) {
    if (token === '>') return tokens.length > at
    if (tokens[at] === undefined || (token !== '*' && token !== tokens[at])) return false
  }
  return wanted.length === tokens.length
}

describe('subjects', () => {
  it('parse what they build, with and without a prefix', () => {
    fc.assert(
      fc.property(subjects, said, (s, say) => {
        const [subject, expected] = say(s)
        expect(s.parse(subject)).toEqual(expected)
      }),
    )
  })

  it('of different meaning never collide', () => {
    fc.assert(
      fc.property(subjects, said, said, (s, sayA, sayB) => {
        const [a, meaningA] = sayA(s)
        const [b, meaningB] = sayB(s)
        expect(a === b).toBe(JSON.stringify(meaningA) === JSON.stringify(meaningB))
      }),
    )
  })

  it('other than its steps never match a journal filter, and only its own do', () => {
    fc.assert(
      fc.property(subjects, said, key, (s, say, k) => {
        const [subject, meaning] = say(s)
        const own = meaning.kind === 'step' && JSON.stringify(meaning.key) === JSON.stringify(k)
        expect(matches(s.journal(k), subject)).toBe(own)
      }),
    )
  })

  it('are in the stream, or are core messages', () => {
    const core = new Set(['returned', 'decided', 'ask', 'register'])
    fc.assert(
      fc.property(subjects, said, (s, say) => {
        const [subject, meaning] = say(s)
        expect(s.streamSubjects().filter((filter) => matches(filter, subject)).length).toBe(core.has(meaning.kind) ? 0 : 1)
      }),
    )
  })

  it('refuse tokens that would change their meaning', () => {
    const s = new Subjects()
    const good = { originator: 'alice', subagent: 'audit', id: '0abcdefg1' }
    const hostile = ['', '*', '>', 'a.b', 'a b', 'a\r\nPUB x', '-a', '_a', 'ä', 'a'.repeat(65), '$JS']
    for (const token of hostile) {
      expect(() => s.request(token, 'alice'), token).toThrow(TypeError)
      expect(() => s.request('audit', token), token).toThrow(TypeError)
      expect(() => s.return({ ...good, originator: token }, 'audit'), token).toThrow(TypeError)
      expect(() => s.journal({ ...good, subagent: token }), token).toThrow(TypeError)
      expect(() => s.decision(good, token.repeat(2), 'eve'), token).toThrow(TypeError)
    }
    for (const token of ['', 'short', '*'.repeat(9), 'a.b.c.d.e.f', 'x'.repeat(65), 'bad-', 'bad-x']) {
      expect(() => s.journal({ ...good, id: token }), token).toThrow(TypeError)
    }
    expect(() => new Subjects('a.*')).toThrow(TypeError)
    expect(() => new Subjects('', 'A.B')).toThrow(TypeError)
  })

  it('of nobody parse as unknown, never throw', () => {
    fc.assert(
      fc.property(subjects, fc.string({ maxLength: 200 }), (s, text) => {
        expect(s.parse(text).kind).toBeTypeOf('string')
      }),
    )
    const s = new Subjects('ns')
    for (const subject of [
      '',
      '.',
      'ns.',
      'ns.work.a.b',
      'work.a.b.abcdefghi.high',
      'ns.event.a.b.abcdefghi.nothing.x',
      'ns.request.a',
      'ns.request',
      'ns.request.',
      'ns.request.a.b.c',
      'ns.request.a.b.c.d',
      'ns.requests.a.b',
      'ns.works.a.b.abcdefghi.high',
      'ns.wor.a.b.abcdefghi.high',
      'ns.work.a.b.short.high',
    ]) {
      expect(s.parse(subject), subject).toEqual({ kind: 'unknown' })
    }
  })

  it('a request whose subject has two tokens, but not two names, is one of nobody', () => {
    const s = new Subjects('ns')
    for (const tokens of ['Not-A-Name!.alice', 'audit.-alice', `${'x'.repeat(65)}.alice`, 'a b.c'])
      expect(s.parse(`ns.request.${tokens}`), tokens).toEqual({ kind: 'request', originator: 'nobody', subagent: 'nobody' })
  })

  it("a step with an odd last token is a step all the same: the server's guard counts it", () => {
    const parsed = new Subjects().parse('fence.alice.audit.0abcdefg1.a%b')
    expect(parsed).toEqual({ kind: 'step', step: 'fence', key: { originator: 'alice', subagent: 'audit', id: '0abcdefg1' }, by: 'a%b' })
  })

  it('name the advisory of our stream only', () => {
    const s = new Subjects()
    expect(s.parse('$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.PASSOVER.work_audit_high')).toEqual({
      kind: 'advisory',
      consumer: 'work_audit_high',
    })
    expect(s.parse('$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.OTHERSIX.work_audit_high')).toEqual({ kind: 'unknown' })
  })

  it('give the listener of an instance and of one id', () => {
    const s = new Subjects('ns')
    const k = { originator: 'alice', subagent: 'audit', id: '0abcdefg123456789_12345678901234' }
    for (const listened of ['0abcdefg', k.id]) {
      expect(matches(s.returnedTo('alice', listened), s.returned(k, 'audit'))).toBe(true)
      expect(matches(s.returnedTo('bob', listened), s.returned(k, 'audit'))).toBe(false)
    }
    expect(matches(s.endings('audit'), s.returned(k, 'passover'))).toBe(true)
    expect(matches(s.endings('audit'), s.returned(k, 'audit'))).toBe(false)
    expect(s.badId(7)).toBe('bad-000000007')
    for (const priority of PRIORITIES) expect(matches(s.allWork('audit', priority), s.work(k, priority))).toBe(true)
  })

  it('keep namespaces apart in bucket and stream names', () => {
    expect(new Subjects('a.b').bucket('agents')).toBe('a_b_agents')
    expect(new Subjects().partsBucket('alice')).toBe('parts_alice')
    expect(new Subjects('a.b').stream).toBe('PASSOVER_a_b')
    expect(new Subjects('a.b', 'MINE').stream).toBe('MINE')
  })
})

function stored(subject: string, headers: Record<string, string>): StoredMessage {
  const block = Object.entries(headers).map(([name, value]) => `\r\n${name}: ${value}`)
  return { subject, sequence: 9, time: 1000, headers: new RawHeaders(`NATS/1.0${block.join('')}\r\n\r\n`), data: new Uint8Array(0) }
}

describe('facts', () => {
  const s = new Subjects('ns')
  const k = { originator: 'alice', subagent: 'audit', id: '0abcdefg1' }

  it('of a step carry what its headers say', () => {
    const fact = s.toFact(
      stored(s.work(k, 'high'), {
        'Nats-Expected-Last-Subject-Sequence': '0',
        'Nats-Expected-Last-Subject-Sequence-Subject': s.journal(k),
        'Passover-Digest': 'd',
        'Passover-Request': '7',
        'Passover-Requested-At': '900',
        'Passover-Timeout': '30000',
        'Passover-Parent': 'root/alice/0parent01',
        'Passover-Proof': '5',
        'Passover-Nonce': 'n',
        'Passover-Reply': 'json',
      }),
    )
    expect(fact).toMatchObject({
      type: 'step',
      kind: 'work',
      by: 'high',
      sequence: 9,
      time: 1000,
      attempt: 0,
      digest: 'd',
      request: 7,
      requested_at: 900,
      timeout_ms: 30000,
      parent: { originator: 'root', subagent: 'alice', id: '0parent01' },
      proof: 5,
      nonce: 'n',
      reply: 'json',
      guard: { sequence: 0, subject: '*.alice.audit.0abcdefg1.*' },
    })
  })

  it('leave out what hostile headers say', () => {
    for (const value of ['NaN', '-1', '1e9', '0x10', '9'.repeat(400), '', ' ', '1.5', 'Infinity']) {
      const fact = s.toFact(
        stored(s.fence(k, 'audit'), {
          'Nats-Expected-Last-Subject-Sequence': value,
          'Passover-Attempt': value,
          'Passover-Timeout': value,
          'Passover-Request': value,
          'Passover-Proof': value,
          'Passover-Expires': value,
          'Passover-Parent': value,
          'Passover-Code': value,
        }),
      )
      const absent = {
        guard: undefined,
        attempt: 0,
        timeout_ms: undefined,
        request: undefined,
        proof: undefined,
        expires_ms: undefined,
        parent: undefined,
        code: undefined,
      }
      expect(fact, value).toMatchObject(absent)
    }
    const none = s.toFact(stored(s.return(k, 'audit'), {}))
    expect(none).toMatchObject({ type: 'step', kind: 'return', attempt: 0, untrusted: expect.stringMatching(/no headers/) })
    expect(none).not.toHaveProperty('guard')
  })

  it('believe only a dispatcher that a step is the first', () => {
    const first = { 'Nats-Expected-Last-Subject-Sequence': '3', 'Passover-First': '1' }
    for (const subject of [s.work(k, 'high'), s.held(k), s.return(k, 'passover')])
      expect(s.toFact(stored(subject, first)), subject).toMatchObject({ first: true })
    for (const subject of [s.fence(k, 'audit'), s.return(k, 'audit')])
      expect(s.toFact(stored(subject, first)), subject).toMatchObject({ first: undefined })
  })

  it('of a guard without its subject header are about the own subject', () => {
    const fact = s.toFact(stored(s.return(k, 'audit'), { 'Nats-Expected-Last-Subject-Sequence': '3' }))
    expect(fact).toMatchObject({ guard: { sequence: 3, subject: 'return.alice.audit.0abcdefg1.audit' } })
  })

  it('know requests, decisions, events, advisories, and what is none of them', () => {
    expect(s.toFact(stored(s.request('audit', 'alice'), { 'Passover-Id': 'x', 'Passover-Timeout': '5' }))).toMatchObject({
      type: 'request',
      id: 'x',
      timeout_ms: 5,
    })
    expect(s.toFact(stored(s.decision(k, 'dispatch', 'eve'), { 'Passover-Verdict': 'approve' }))).toMatchObject({
      type: 'decision',
      verdict: 'approve',
    })
    expect(s.toFact(stored(s.decision(k, 'dispatch', 'eve'), { 'Passover-Verdict': 'maybe' }))).toMatchObject({
      type: 'decision',
      verdict: undefined,
    })
    const headed = { 'Content-Type': 'application/msgpack' }
    expect(s.toFact(stored(s.event(k, 'cancel', 'alice'), headed))).toMatchObject({ type: 'event', kind: 'cancel', sender: 'alice' })
    expect(s.toFact(stored(s.policy('eve'), headed))).toEqual({ type: 'other', sequence: 9, time: 1000 })
    expect(s.toFact(stored('elsewhere', {}))).toEqual({ type: 'other', sequence: 9, time: 1000 })
  })
})
