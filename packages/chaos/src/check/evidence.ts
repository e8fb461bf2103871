import { createHash } from 'node:crypto'
import { gunzipSync } from 'node:zlib'
import { decode } from '@msgpack/msgpack'
import type { Judgement, StoredMessage, Violation } from './found.js'
import type { Checked } from './verdict.js'

/** What the audit left, as it is stored: last value of each key of a bucket, and whole objects. */
export interface Evidence {
  /** Bucket `archive`. */
  manifest: ReadonlyMap<string, Uint8Array>
  /** Objects of the bucket `archive`, by name. */
  objects: ReadonlyMap<string, Uint8Array>
  /** Bucket `passes`. */
  passes: ReadonlyMap<string, Uint8Array>
}

interface Segment {
  k: number
  object: string
  compression: string
  count: number
  sha256: string
  chain_before: string
  chain_after: string
}

interface Seen {
  key?: { originator: string; subagent: string; id: string }
  sequences?: { return?: number }
  error?: { code?: string }
}

const PER_SEGMENT = 4_096
const GENESIS = '0'.repeat(64)
const LENGTH_BYTES = 4
/** Nanoseconds as a number of JavaScript are not exact: two readers may cut a stored time to neighbouring milliseconds. */
const ROUNDING_MS = 1

/** P4: the archive holds what the stream has, entry by entry, and its chain is whole; each pass has one record, which says what the stream says. */
export function checkEvidence(records: readonly StoredMessage[], judgement: Judgement, evidence: Evidence): Checked {
  const broken: string[] = []
  const segments = segmentsOf(evidence.manifest)
  const stored = new Map(records.map((record) => [record.sequence, record]))
  let chain = GENESIS
  let events = 0
  for (const [i, segment] of segments.entries()) {
    if (segment.k !== i) broken.push(`segment ${i} is missing`)
    if (segment.chain_before !== chain) broken.push(`segment ${segment.k} does not continue the chain`)
    const read = readSegment(segment, evidence.objects, broken)
    chain = segment.chain_after
    events += read.length
    compare(segment.k, read, { stored, last: records.at(-1)?.sequence ?? 0, broken })
  }
  broken.push(...wrongRecords(judgement, evidence.passes))
  const violations = broken.map((what): Violation => ({ promise: 'P4', what }))
  const due = Math.floor(((records.at(-1)?.sequence ?? 0) + 1) / PER_SEGMENT)
  const counts = { 'segments sealed': segments.length, 'segments full': due, 'archived events': events, records: evidence.passes.size }
  return { counts: { P4: counts }, violations }
}

function segmentsOf(manifest: Evidence['manifest']): Segment[] {
  const entries = [...manifest].filter(([key]) => key.startsWith('segment.')).map(([, value]) => decode(value) as Segment)
  return entries.sort((a, b) => a.k - b.k)
}

interface Archived {
  sequence: number
  time: number
  subject: string
  data: Uint8Array
}

function readSegment(segment: Segment, objects: Evidence['objects'], broken: string[]): Archived[] {
  const object = objects.get(segment.object)
  if (!object) {
    broken.push(`the object of segment ${segment.k} is missing`)
    return []
  }
  if (sha256(object) !== segment.sha256) broken.push(`the object of segment ${segment.k} is not what was sealed`)
  const chain = createHash('sha256').update(Buffer.from(segment.chain_before, 'hex'))
  const read: Archived[] = []
  try {
    const raw = segment.compression === 'gzip' ? gunzipSync(object) : Buffer.from(object)
    for (let at = 0; at < raw.length; ) {
      const end = at + LENGTH_BYTES + raw.readUInt32BE(at)
      const body = raw.subarray(at + LENGTH_BYTES, end)
      chain.update(createHash('sha256').update(body).digest())
      const [sequence, time, subject, , data] = decode(body) as [number, number, string, string, Uint8Array]
      read.push({ sequence, time, subject, data })
      at = end
    }
  } catch (error) {
    broken.push(`segment ${segment.k} cannot be read: ${error instanceof Error ? error.message : error}`)
  }
  if (chain.digest('hex') !== segment.chain_after) broken.push(`the entries of segment ${segment.k} do not add up to its chain`)
  return read
}

interface Against {
  stored: ReadonlyMap<number, StoredMessage>
  last: number
  broken: string[]
}

/** Every entry once, none missing, each as the stream has it. */
function compare(k: number, read: readonly Archived[], { stored, last, broken }: Against): void {
  let due = Math.max(1, k * PER_SEGMENT)
  for (const { sequence, time, subject, data } of read) {
    for (; due < sequence; due += 1) if (stored.has(due)) broken.push(`entry ${due} is missing from segment ${k}`)
    due = sequence + 1
    const record = stored.get(sequence)
    // What the audit deleted is told by the archive alone.
    if (record && (record.subject !== subject || Math.abs(record.time - time) > ROUNDING_MS || !Buffer.from(record.data).equals(data)))
      broken.push(`entry ${sequence} of segment ${k} differs from the stream`)
  }
  for (; due < (k + 1) * PER_SEGMENT && due <= last; due += 1) if (stored.has(due)) broken.push(`entry ${due} is missing from segment ${k}`)
}

function wrongRecords({ passes }: Judgement, stored: Evidence['passes']): string[] {
  const records = new Map<string, Seen[]>()
  for (const value of stored.values()) {
    const record = decode(value) as Seen
    const key = `${record.key?.originator}/${record.key?.subagent}/${record.key?.id}`
    records.set(key, [...(records.get(key) ?? []), record])
  }
  const wrong = [...passes.values()].flatMap((found) => {
    const [record, another] = records.get(found.key) ?? []
    if (!record) return [`${found.key} has no record`]
    if (another) return [`${found.key} has more than one record`]
    const told = [record.sequences?.return, record.error?.code].join(' ')
    const is = [found.ended?.sequence, found.ended?.code].join(' ')
    return told === is ? [] : [`${found.key}: the record says ${told}, the stream ${is}`]
  })
  return [...wrong, ...[...records.keys()].filter((key) => !passes.has(key)).map((key) => `${key} has a record and is not in the stream`)]
}

function sha256(data: Uint8Array): string {
  return createHash('sha256').update(data).digest('hex')
}
