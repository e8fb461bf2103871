import { CONTENT_TYPE, encode, readHeaders, type StoredMessage, Subjects } from '@passover/bus'
import { HEADER } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { eventOf, SegmentBuffer } from './buffer.js'
import { decodeFrames, type ErasedEntry, encodeFrame, sequenceOf } from './format.js'
import { ownedParts } from './part-references.js'
import { decodeIndex, readIndexIds } from './pass-index.js'

const subjects = new Subjects()
const PART = { name: 'big', hash: 'c'.repeat(64), size: 300_000, owner: 'alice' }

/** A work step, which may refer to a large part. */
function stored(sequence: number, parts: object[] = []): StoredMessage {
  const subject = subjects.step('work', { originator: 'alice', subagent: 'audit', id: `some-pass-${sequence}` }, 'medium')
  const headers = readHeaders(`NATS/1.0\r\n${HEADER.contentType}: ${CONTENT_TYPE.msgpack}\r\n\r\n`)
  return { sequence, time: sequence * 10, subject, headers, data: encode({ v: 1, parts }) }
}

function buffered(...messages: StoredMessage[]): SegmentBuffer {
  const buffer = new SegmentBuffer(0)
  for (const message of messages) buffer.add(message, subjects.toFact(message), 'session-1')
  return buffer
}

const erasedOf = (message: StoredMessage): ErasedEntry => ({
  sequence: message.sequence,
  time: message.time,
  digest: encodeFrame(eventOf(message)).digest,
})
const framesOf = ({ frames }: SegmentBuffer) =>
  [...decodeFrames(frames?.raw ?? new Uint8Array())].map((frame) => `${frame.kind} ${sequenceOf(frame)}`)

describe('a segment of which entries are erased before it is sealed', () => {
  const [one, two, three, four] = [stored(1), stored(2, [PART]), stored(3, [PART]), stored(4)] as [
    StoredMessage,
    StoredMessage,
    StoredMessage,
    StoredMessage,
  ]
  const erased = (...messages: StoredMessage[]) => new Map(messages.map((message) => [message.sequence, erasedOf(message)]))

  it('has their digests where they stood, also where they were gone before it read them, so that its chain is the same', () => {
    const whole = buffered(one, two, three, four)
    for (const [what, buffer] of [
      ['all read', buffered(one, two, three, four)],
      ['two gone before', buffered(two, three)],
    ] as const) {
      const left = buffer.erase(erased(one, three, four))
      expect(framesOf(left), what).toEqual(['erased 1', 'event 2', 'erased 3', 'erased 4'])
      expect(left.facts, what).toEqual(whole.facts)
      expect(left.frames?.digests, what).toEqual(whole.frames?.digests)
      expect(left.prints.bytes(), what).toEqual(whole.prints.bytes())
    }
  })

  it('says nothing of them in its index', () => {
    const index = (buffer: SegmentBuffer) => buffer.index.encode(0, buffer.prints.bytes())
    const left = index(buffered(one, two, three, four).erase(erased(one, two)))
    expect(decodeIndex(left).map(({ key }) => key.id)).toEqual(['some-pass-3', 'some-pass-4'])
    // Another refers to it.
    expect(readIndexIds(left).parts).toHaveLength(1)
    const none = index(buffered(one, two, three, four).erase(erased(two, three)))
    expect(readIndexIds(none).parts).toHaveLength(0)
  })

  it('may be asked whether something that stays refers to a part', () => {
    const { index } = buffered(one, two, three)
    const [part = ''] = ownedParts(two, subjects.toFact(two))
    expect(index.refersTo(part)).toBe(true)
    expect(index.refersTo(part, new Set([2]))).toBe(true)
    expect(index.refersTo(part, new Set([2, 3]))).toBe(false)
    expect(index.refersTo('alice/other')).toBe(false)
  })
})
