import { createHash } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { encode } from '@msgpack/msgpack'
import { describe, expect, it } from 'vitest'
import { checkEvidence, type Evidence } from './evidence.js'
import type { StoredMessage } from './found.js'
import { judge } from './judge.js'
import { ID, NOW, streamOf } from './planted.js'

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
  const frames = messages.map(({ sequence, time, subject, data }) => {
    const body = encode([sequence, time, subject, 'NATS/1.0\r\n\r\n', data])
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

const check = (given: Evidence) => checkEvidence(records, judge(records, NOW), given).violations.map(({ what }) => what)
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
})
