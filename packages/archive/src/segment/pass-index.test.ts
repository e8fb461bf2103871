import { encode, readHeaders, Subjects } from '@passover/bus'
import { HEADER } from '@passover/schemas'
import { expect, it } from 'vitest'
import { decodeIndex, IndexBuilder } from './pass-index.js'

const subjects = new Subjects()
const KEY = { originator: 'alice', subagent: 'audit', id: 'no-time-in-it' }

function step(sequence: number, kind: 'held' | 'work' | 'return', guard: number, more: string[] = []) {
  const by = kind === 'work' ? 'medium' : 'passover'
  const lines = [
    `Nats-Expected-Last-Subject-Sequence: ${guard}`,
    `Nats-Expected-Last-Subject-Sequence-Subject: ${subjects.journal(KEY)}`,
    ...more,
  ]
  const headers = readHeaders(`NATS/1.0\r\n${lines.map((line) => `${line}\r\n`).join('')}\r\n`)
  return subjects.toFact({ sequence, time: 1, subject: subjects.step(kind, KEY, by), headers, data: new Uint8Array() })
}

function request(sequence: number) {
  const headers = readHeaders(`NATS/1.0\r\n${HEADER.id}: ${KEY.id}\r\n\r\n`)
  return subjects.toFact({ sequence, time: 1, subject: subjects.request('audit', 'alice'), headers, data: new Uint8Array() })
}

function rowOf(...facts: [ReturnType<typeof step>, string?][]) {
  const index = new IndexBuilder()
  for (const [fact, session] of facts) index.add(fact, session)
  const [row] = decodeIndex(index.encode(0))
  return row
}

const REFUSED: Parameters<typeof rowOf> = [[request(1)], [step(2, 'return', 0)]]
const HELD: Parameters<typeof rowOf> = [[request(11)], [step(12, 'held', 0), 'b'], [step(13, 'work', 12), 'b'], [step(14, 'return', 13)]]

it('a pass has its session in the index, and says whether it begins there', () => {
  expect(rowOf(...HELD)).toEqual({ key: KEY, session_id: 'b', sequences: [11, 12, 13, 14], begins: true })
  expect(rowOf(...REFUSED)).toMatchObject({ session_id: undefined, begins: true })
  expect(rowOf([step(14, 'return', 13)])).toMatchObject({ session_id: undefined, begins: false })
})

it('a pass begins with a step that says so, after messages that count for nothing', () => {
  expect(rowOf([step(20, 'work', 19, [`${HEADER.first}: 1`])])).toMatchObject({ begins: true })
  expect(rowOf([step(20, 'work', 19)])).toMatchObject({ begins: false })
})

// Fails where the first session, or the only one, that it hears of stands there: who erases the other finds nothing.
it('where several passes had an id in one segment no session stands there: who looks for one reads it', () => {
  const other: Parameters<typeof rowOf> = [[step(3, 'work', 0), 'a'], [step(4, 'return', 3)]]
  for (const before of [REFUSED, other]) {
    expect(rowOf(...before, ...HELD)).toMatchObject({ session_id: undefined, begins: true })
  }
  const index = new IndexBuilder()
  for (const [fact, session] of [...other, ...HELD]) index.add(fact, session)
  const left = index.without(new Set([3, 4]))
  expect(decodeIndex(left.encode(0))).toMatchObject([{ session_id: undefined, sequences: [11, 12, 13, 14] }])
  left.add(step(15, 'return', 14), 'b')
  expect([...left.rows()]).toMatchObject([{ session_id: undefined }])
})

it('says in plain words why an index cannot be read', () => {
  expect(() => decodeIndex(encode({ v: 1, k: 0, passes: 'none' }))).toThrow(/^an index cannot be read: passes: must be a list, not text$/)
})
