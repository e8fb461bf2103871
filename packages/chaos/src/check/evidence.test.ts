import { createHash } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { encode } from '@msgpack/msgpack'
import { describe, expect, it } from 'vitest'
import { ID, NOW, streamOf } from '../../testing/stored-messages.js'
import { type Evidence, readArchive, wholeHistory } from './archive.js'
import { checkEvidence } from './evidence.js'
import { judge } from './judge.js'
import type { StoredMessage } from './types.js'

const records = streamOf([
  { subject: 'request.audit.alice', headers: { 'Passover-Id': ID } },
  { subject: `work.alice.audit.${ID}.high`, headers: { guard: 0, 'Passover-Timeout': 5_000 } },
  { subject: `return.alice.audit.${ID}.audit`, headers: { guard: 2, 'Passover-Attempt': 1 } },
])
const record = { key: { originator: 'alice', subagent: 'audit', id: ID }, sequences: { return: 3 } }
const sha256 = (data: Uint8Array) => createHash('sha256').update(data).digest()

/** A segment as the audit seals it, of these messages; `edit` changes what is sealed, `spoil` what is stored. */
function evidence(
  messages: readonly StoredMessage[],
  { spoil = (object: Uint8Array) => object, before = '0'.repeat(64), passes = [record as object] } = {},
): Evidence {
  const chain = createHash('sha256').update(Buffer.from(before, 'hex'))
  const frames = messages.map(({ sequence, time, subject, headers, data }) => {
    const lines = Object.entries(headers?.() ?? {}).flatMap(([name, values]) => values.map((value) => `${name}: ${value}\r\n`))
    const body = encode([sequence, time, subject, `NATS/1.0\r\n${lines.join('')}\r\n`, data])
    chain.update(sha256(body))
    const length = Buffer.alloc(4)
    length.writeUInt32BE(body.length)
    return Buffer.concat([length, body])
  })
  const object = gzipSync(Buffer.concat(frames))
  const entry = {
    k: 0,
    object: 'segment-0',
    compression: 'gzip',
    count: messages.length,
    sha256: sha256(object).toString('hex'),
    chain_before: before,
    chain_after: chain.digest('hex'),
  }
  return {
    manifest: new Map([['segment.0000000000', encode(entry)]]),
    objects: new Map([['segment-0', spoil(object)]]),
    passes: new Map(passes.map((value, i) => [`record ${i}`, encode(value)])),
  }
}

interface Left {
  stored?: readonly StoredMessage[]
  now?: number
  audit_away?: { from: number; to: number }[]
}
function look(given: Evidence, { stored = records, now = NOW, audit_away = [] }: Left = {}) {
  const archived = readArchive(given)
  const judgement = judge(wholeHistory(stored, archived), NOW)
  return checkEvidence({ stored, archived, passes: given.passes, judgement, now }, { audit_away })
}
const check = (given: Evidence, left?: Left) => look(given, left).violations.map(({ what }) => what)
const changed = (i: number, more: object) => records.map((one, n) => (n === i ? { ...one, ...more } : one))

describe('evidence', () => {
  it('is whole where archive and records say what the stream says', () => {
    expect(check(evidence(records))).toEqual([])
  })

  it.each<[string, Evidence, RegExp]>([
    ['an entry that is missing', evidence(records.filter((_, i) => i !== 1)), /entry 2 is missing from segment 0/],
    ['an entry that is missing at the end', evidence(records.slice(0, 2)), /entry 3 is missing/],
    ['an entry that was changed', evidence(changed(1, { data: new Uint8Array([1]) })), /entry 2 of segment 0 differs/],
    ['an entry of another time', evidence(changed(1, { time: NOW + 2 })), /entry 2 of segment 0 differs/],
    ['a chain that does not begin at its beginning', evidence(records, { before: '1'.repeat(64) }), /does not continue the chain/],
    ['a pass without a record', evidence(records, { passes: [] }), /has no record/],
    ['a pass with two', evidence(records, { passes: [record, record] }), /more than one record/],
    [
      'a record that says something else',
      evidence(records, { passes: [{ ...record, error: { code: 'E010' } }] }),
      /the record says 3 E010/,
    ],
    [
      'a record of nothing',
      evidence(records, { passes: [record, { key: { originator: 'x', subagent: 'y', id: ID } }] }),
      /is not in the stream/,
    ],
    ['an object that is gone', { ...evidence(records), objects: new Map() }, /the object of segment 0 is missing/],
    [
      'a segment that is gone',
      { ...evidence(records), manifest: new Map([['segment.0000000001', encode({ k: 1 })]]) },
      /segment 0 is missing/,
    ],
  ])('lacks something where there is %s', (_, given, what) => {
    expect(check(given).join('\n')).toMatch(what)
  })

  it('names an object that is not what was sealed', () => {
    const flip = (object: Uint8Array) => Uint8Array.from(object, (byte, i) => (i === 12 ? byte ^ 0xff : byte))
    expect(check(evidence(records, { spoil: flip })).join('\n')).toMatch(/is not what was sealed/)
  })

  it('is whole where what was archived has left the stream: the archive tells it', () => {
    expect(check(evidence(records), { stored: records.slice(2) })).toEqual([])
  })

  it('names what is neither in the stream nor in the archive', () => {
    const { violations, counts } = look(evidence(records.slice(0, 1)), { stored: records.slice(2) })
    expect(violations).toContainEqual({ promise: 'P2', what: 'sequences 2 to 2 are neither in the stream nor in the archive' })
    expect(counts.P2).toEqual({ 'messages lost': 1 })
  })

  describe('of a segment that is full', () => {
    const full = streamOf(Array.from({ length: 4_095 }, () => ({ subject: 'acknowledged.nobody' })))
    const none: Evidence = { manifest: new Map(), objects: new Map(), passes: new Map() }
    const at = (after: number, audit_away: Left['audit_away'] = []) => look(none, { stored: full, now: NOW + after, audit_away })

    it('says nothing yet, but that it is to be sealed', () => {
      expect(at(30_000)).toMatchObject({ violations: [], whole: false, counts: { P4: { 'segments sealed': 0, 'yet to be sealed': 1 } } })
      expect(check(none, { stored: full.slice(0, -1), now: NOW + 60_000 })).toEqual([])
    })

    it('names it when its time is over, counted from when an audit was up', () => {
      expect(at(30_001).violations).toEqual([{ promise: 'P4', what: 'segment 0 was full 30001 ms ago and is not sealed' }])
      expect(at(90_000, [{ from: NOW - 1, to: NOW + 60_000 }]).violations).toEqual([])
      expect(at(95_001, [{ from: NOW - 1, to: NOW + 60_000 }]).violations).toHaveLength(1)
    })
  })
})
