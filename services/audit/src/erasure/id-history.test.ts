import { encode, readHeaders } from '@passover/bus'
import { type Fact, type PassKey, type Step, SYSTEM } from '@passover/schemas'
import { expect, it } from 'vitest'
import type { LoadedPass } from '../pass/load-pass.js'
import { buildIdHistory } from './id-history.js'

type Message = LoadedPass['messages'][number]

const KEY: PassKey = { originator: 'alice', subagent: 'audit', id: 'no-time-in-it' }
const RULES = { id_window_ms: 1_000 }
const FIRST = { subject: `*.alice.audit.${KEY.id}.*`, sequence: 0 }

function message(fact: Partial<Fact> & { type: string; sequence: number }, body: unknown): Message {
  const { sequence } = fact
  const time = 1_000 * sequence
  const stored = { subject: '', sequence, time, headers: readHeaders(''), data: encode(body, 'msgpack') }
  return { stored, fact: { ...fact, time } as unknown as Fact }
}

function asks(sequence: number, session_id?: string): Message {
  const fact = { type: 'request' as const, originator: 'alice', subagent: 'audit', id: KEY.id, sequence, timeout_ms: undefined }
  return message(fact, { v: 1, session_id })
}

/** The return of one that was refused: its only step. */
function refused(sequence: number, request: number, more: Partial<Step> = {}): Message {
  const fact = {
    type: 'step' as const,
    kind: 'return' as const,
    key: KEY,
    by: SYSTEM,
    sequence,
    attempt: 0,
    code: 'E004',
    request,
    guard: FIRST,
    ...more,
  }
  return message(fact as Partial<Step> & { type: 'step'; sequence: number }, { v: 1, error: { code: more.code ?? 'E004', message: 'no' } })
}

function event(sequence: number, kind = 'applied'): Message {
  return message({ type: 'event', kind, key: KEY, sender: 'alice', sequence } as never, { v: 1 })
}

function told(messages: Message[], waiting: number[] = []) {
  return buildIdHistory({ key: KEY, messages, waiting: new Set(waiting) }, RULES).map(({ session, asks, messages: own }) => [
    session,
    ...(asks ? [asks] : []),
    ...own.map(({ stored }) => stored.sequence),
  ])
}

// Fails where an id is taken for one pass: who erases one session takes what another one said under the same id, or leaves what it should take.
it('each pass that had an id has its own messages, its request among them', () => {
  const messages = [asks(1, 'a'), refused(2, 1), event(3), asks(10, 'b'), refused(11, 10), event(12)]
  expect(told(messages)).toEqual([
    ['a', 1, 2, 3],
    ['b', 10, 11, 12],
  ])
})

it('a request that no step names is of the pass whose session it says, or in whose time it was stored; one of none is by itself', () => {
  const messages = [
    asks(1, 'a'),
    refused(2, 1),
    asks(3, 'a'),
    asks(4),
    asks(9, 'b'),
    asks(10, 'b'),
    refused(11, 10),
    asks(12, 'a'),
    asks(13, 'c'),
  ]
  expect(told(messages)).toEqual([
    ['a', 1, 2, 3, 4, 12],
    ['b', 9, 10, 11],
    ['c', 'answered', 13],
  ])
})

// Fails where it is taken for one of the pass that ended: it would be erased with that, though nobody has answered it yet.
it('a request that waits for its first step begins a pass of its own, whatever its session', () => {
  const messages = [asks(1, 'a'), refused(2, 1), asks(3, 'a'), asks(20, 'a'), asks(21, 'a'), asks(22, 'b'), asks(23)]
  expect(told(messages, [20, 21, 22, 23])).toEqual([
    ['a', 1, 2, 3],
    ['a', 'waits', 20, 21],
    ['b', 'waits', 22],
    [undefined, 'waits', 23],
  ])
})

it('what only says that a request came too late is by itself, and what is told later speaks of the pass before', () => {
  const late = { code: 'E005' as const }
  const messages = [asks(1, 'a'), refused(2, 1), asks(20, 'b'), refused(30, 20, late), event(31), refused(40, 39, late)]
  expect(told(messages)).toEqual([
    ['a', 1, 2, 31],
    ['b', 20, 30],
    ['b', 40],
  ])
})

it('a cancel that was stored just before its request goes with that, one that came just after the end with what had ended', () => {
  const messages = [asks(1, 'a'), refused(2, 1), event(3, 'cancel'), event(18), event(19, 'cancel'), asks(20, 'b'), refused(21, 20)]
  expect(told(messages)).toEqual([
    ['a', 1, 2, 3, 18],
    ['b', 19, 20, 21],
  ])
})

it('a step that nobody guarded as the first, or that came too late, begins nothing', () => {
  const open = { guard: undefined }
  const messages = [asks(1, 'a'), refused(2, 1), refused(3, 1, open), refused(9, 8, { requested_at: 1 })]
  expect(told(messages)).toEqual([['a', 1, 2, 3, 9]])
})

it('of an id without any step it is the request that says the session, and what is told besides goes with it', () => {
  expect(told([asks(1, 'a')], [1])).toEqual([['a', 'waits', 1]])
  expect(told([asks(1, 'a'), asks(3, 'b'), event(4), asks(5, 'a')])).toEqual([
    ['a', 'answered', 1, 5],
    ['b', 'answered', 3, 4],
  ])
  expect(told([event(1)])).toEqual([])
})
