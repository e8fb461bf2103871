import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { checkFrames } from '../archive/archive.js'
import type { ManifestEntry } from '../archive/manifest.js'
import {
  type ArchivedEvent,
  Chain,
  decodeFrames,
  encodeErased,
  encodeFrame,
  GENESIS,
  SegmentDamaged,
  segmentOf,
  segmentRange,
} from './format.js'

const event = fc.record<Omit<ArchivedEvent, 'sequence'>>({
  time: fc.integer({ min: 0, max: 2 ** 42 }),
  subject: fc.string({ minLength: 1, maxLength: 60 }),
  headers: fc.string({ maxLength: 100, unit: 'binary' }),
  data: fc.uint8Array({ maxLength: 300 }),
})
/** Events of segment 1, sequences rising with gaps. */
const events = fc.array(fc.tuple(fc.integer({ min: 1, max: 40 }), event), { minLength: 1, maxLength: 12 }).map((list) => {
  let sequence = 4095
  return list.map(([step, one]): ArchivedEvent => {
    sequence += step
    return { sequence, ...one }
  })
})

function seal(list: ArchivedEvent[]): { bytes: Buffer; entry: ManifestEntry } {
  const frames = list.map(encodeFrame)
  const chain = new Chain(GENESIS)
  for (const { digest } of frames) chain.add(digest)
  const entry = {
    k: 1,
    count: frames.length,
    chain_before: Buffer.from(GENESIS).toString('hex'),
    chain_after: chain.end(),
  } as ManifestEntry
  return { bytes: Buffer.concat(frames.map(({ bytes }) => bytes)), entry }
}

/** What is found wrong with bytes that claim to be this segment. */
function faultOf(bytes: Uint8Array, entry: ManifestEntry): string | undefined {
  try {
    return checkFrames(entry, [...decodeFrames(bytes)])
  } catch (error) {
    if (error instanceof SegmentDamaged) return error.message
    throw error
  }
}

describe('segment codec', () => {
  it('gives back what was put in', () => {
    fc.assert(
      fc.property(events, (list) => {
        const { bytes, entry } = seal(list)
        const found = [...decodeFrames(bytes)].map((frame) =>
          frame.kind === 'event' ? { ...frame.event, data: Buffer.from(frame.event.data) } : undefined,
        )
        expect(found).toEqual(list.map((one) => ({ ...one, data: Buffer.from(one.data) })))
        expect(faultOf(bytes, entry)).toBeUndefined()
      }),
    )
  })

  it('any changed byte is found', () => {
    fc.assert(
      fc.property(events, fc.nat(), fc.integer({ min: 1, max: 255 }), (list, at, flip) => {
        const { bytes, entry } = seal(list)
        const changed = Buffer.from(bytes)
        const position = at % changed.length
        changed[position] = (changed[position] ?? 0) ^ flip
        expect(faultOf(changed, entry)).toBeTypeOf('string')
      }),
      { numRuns: 500 },
    )
  })

  it('dropped, doubled, swapped and cut frames are found', () => {
    fc.assert(
      fc.property(
        events.filter((list) => list.length > 1),
        fc.nat(),
        (list, at) => {
          const { entry } = seal(list)
          const i = at % (list.length - 1)
          const [a, b] = [list[i], list[i + 1]] as [ArchivedEvent, ArchivedEvent]
          const swapped = list.with(i, { ...b, sequence: a.sequence }).with(i + 1, { ...a, sequence: b.sequence })
          const same = JSON.stringify({ ...a, sequence: 0, data: [...a.data] }) === JSON.stringify({ ...b, sequence: 0, data: [...b.data] })
          if (!same) expect(faultOf(seal(swapped).bytes, entry)).toBeTypeOf('string')
          expect(faultOf(seal(list.toSpliced(i, 1)).bytes, entry)).toBeTypeOf('string')
          const { bytes } = seal(list)
          expect(faultOf(Buffer.concat([bytes, bytes]), entry)).toBeTypeOf('string')
          expect(faultOf(bytes.subarray(0, bytes.length - 1), entry)).toBeTypeOf('string')
        },
      ),
    )
  })

  it('an erased event keeps the chain whole, another digest does not', () => {
    const list: ArchivedEvent[] = [1, 2, 3].map((n) => ({
      sequence: 4096 + n,
      time: n,
      subject: `s.${n}`,
      headers: '',
      data: new Uint8Array([n]),
    }))
    const frames = list.map(encodeFrame)
    const { entry } = seal(list)
    const erased = (digest: Uint8Array) =>
      Buffer.concat([frames[0]?.bytes ?? [], encodeErased(4098, digest), frames[2]?.bytes ?? []].map((bytes) => Buffer.from(bytes)))
    expect(faultOf(erased(frames[1]?.digest ?? GENESIS), entry)).toBeUndefined()
    expect(faultOf(erased(GENESIS), entry)).toBe('its events do not match its chain value')
  })

  it('names sequences that belong to another segment', () => {
    const { bytes, entry } = seal([{ sequence: 9000, time: 1, subject: 's', headers: '', data: new Uint8Array() }])
    expect(faultOf(bytes, entry)).toBe('sequence 9000 does not belong here')
  })

  it('cuts sequences into segments of 4096, the first without sequence 0', () => {
    expect([1, 4095, 4096, 8191, 8192].map(segmentOf)).toEqual([0, 0, 1, 1, 2])
    expect(segmentRange(0)).toEqual({ first: 1, last: 4095 })
    expect(segmentRange(2)).toEqual({ first: 8192, last: 12287 })
  })
})
