import { EARLY_MESSAGE_MS } from '@passover/archive'
import { type Bus, readHeaders, type StoredMessage, Subjects } from '@passover/bus'
import { HEADER, keyText, type PassKey } from '@passover/schemas'
import { expect, it } from 'vitest'
import { addMessage, createCandidate, type DeletionCandidate, groupByPass } from './segment-contents.js'

const subjects = new Subjects()
const bus = { subjects } as unknown as Bus
const rules = { id_window_ms: 3_600_000 }
const KEY: PassKey = { originator: 'alice', subagent: 'audit', id: 'given-id-1' }

function message(sequence: number, subject: string, headers: Record<string, string | number> = {}): StoredMessage {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  return { sequence, time: sequence, subject, headers: readHeaders(`NATS/1.0\r\n${lines.join('')}\r\n`), data: new Uint8Array() }
}

const request = (sequence: number) => message(sequence, subjects.request('audit', 'alice'), { [HEADER.id]: KEY.id })

/** The first step of a journal, which names its request. */
function first(sequence: number, key: PassKey, how: { subject: string; request: number }): StoredMessage {
  const guard = 'Nats-Expected-Last-Subject-Sequence'
  return message(sequence, how.subject, { [HEADER.request]: how.request, [guard]: 0, [`${guard}-Subject`]: subjects.journal(key) })
}

const ALL = Number.NEGATIVE_INFINITY

function sorted(
  messages: StoredMessage[],
  known: (text: string) => DeletionCandidate | undefined = () => undefined,
  since = ALL,
  isDeferred = (_text: string) => false,
) {
  const { contents, add } = groupByPass({ bus, rules, known, isDeferred, since })
  for (const one of messages) add(one)
  return contents.passes
}

// Fails with the pass taken out when it has nothing else here: nothing would look at it again, and it stayed in the stream for good.
it('a request that its refusal takes with it leaves the pass of its id among those that are looked at', () => {
  const bad = { ...KEY, id: subjects.badId(10) }
  const passes = sorted([request(10), first(11, bad, { subject: subjects.return(bad, 'passover'), request: 10 })])
  expect([...(passes.get(keyText(bad))?.facts.keys() ?? [])].sort()).toEqual([10, 11])
  expect(passes.get(keyText(bad))?.whole).toBe(true)
  expect(passes.get(keyText(KEY))).toMatchObject({ whole: false, facts: new Map() })
})

it('a first step without the request that it names is not all of a pass: what else asked for it may stand there, too', () => {
  const work = first(20, KEY, { subject: subjects.work(KEY, 'medium'), request: 5 })
  expect(sorted([work]).get(keyText(KEY))?.whole).toBe(false)
  expect(sorted([request(5), work]).get(keyText(KEY))?.whole).toBe(true)
  const before = createCandidate(KEY)
  addMessage(before, { stored: request(5), fact: subjects.toFact(request(5)) }, { rules, since: ALL })
  expect(sorted([work], () => before).get(keyText(KEY))?.whole).toBe(true)
})

it('one that was asked for soon after the first segment that was read is not all of a pass: its cancel may be older', () => {
  const messages = [request(50_000), first(50_001, KEY, { subject: subjects.work(KEY, 'medium'), request: 50_000 })]
  const isWhole = (since: number) => sorted(messages, undefined, since).get(keyText(KEY))?.whole
  expect([isWhole(50_000 - EARLY_MESSAGE_MS), isWhole(50_001 - EARLY_MESSAGE_MS)]).toEqual([true, false])
})

it('one whose earlier messages were deferred is not all of a pass, even where its id was used again after an erasure', () => {
  const again = [request(20), first(21, KEY, { subject: subjects.work(KEY, 'medium'), request: 20 })]
  expect(sorted(again, undefined, ALL, (text) => text === keyText(KEY)).get(keyText(KEY))?.whole).toBe(false)
  expect(sorted(again, undefined, ALL, () => false).get(keyText(KEY))?.whole).toBe(true)
})
