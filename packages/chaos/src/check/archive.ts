import { createHash } from 'node:crypto'
import { gunzipSync } from 'node:zlib'
import { decode } from '@msgpack/msgpack'
import type { StoredMessage } from './types.js'

/** Data that the audit has stored: the last value of each key of a bucket, and whole objects. */
export interface Evidence {
  /** Bucket `archive`. */
  manifest: ReadonlyMap<string, Uint8Array>
  /** Objects of the bucket `archive`, by name. */
  objects: ReadonlyMap<string, Uint8Array>
  /** Bucket `passes`. */
  passes: ReadonlyMap<string, Uint8Array>
}

export interface Segment {
  k: number
  object: string
  compression: string
  count: number
  sha256: string
  chain_before: string
  chain_after: string
}

export interface ArchivedSegment {
  k: number
  events: StoredMessage[]
}

/** The archive by itself: its segments in order, and their defects. */
export interface Archived {
  segments: ArchivedSegment[]
  broken: string[]
}

export const PER_SEGMENT = 4_096
const GENESIS = '0'.repeat(64)
const LENGTH_BYTES = 4

/** Reads every segment, compares its bytes with the manifest, and follows the chain. */
export function readArchive({ manifest, objects }: Pick<Evidence, 'manifest' | 'objects'>): Archived {
  const broken: string[] = []
  let chain = GENESIS
  const segments = segmentsOf(manifest).map((segment, i) => {
    if (segment.k !== i) broken.push(`segment ${i} is missing`)
    if (segment.chain_before !== chain) broken.push(`segment ${segment.k} does not continue the chain`)
    chain = segment.chain_after
    return { k: segment.k, events: readSegment(segment, objects, broken) }
  })
  return { segments, broken }
}

function segmentsOf(manifest: Evidence['manifest']): Segment[] {
  const entries = [...manifest].filter(([key]) => key.startsWith('segment.')).map(([, value]) => decode(value) as Segment)
  return entries.sort((a, b) => a.k - b.k)
}

function readSegment(segment: Segment, objects: Evidence['objects'], broken: string[]): StoredMessage[] {
  const object = objects.get(segment.object)
  if (!object) {
    broken.push(`the object of segment ${segment.k} is missing`)
    return []
  }
  if (sha256(object) !== segment.sha256) broken.push(`the object of segment ${segment.k} is not what was sealed`)
  const chain = createHash('sha256').update(Buffer.from(segment.chain_before, 'hex'))
  const read: StoredMessage[] = []
  try {
    const raw = segment.compression === 'gzip' ? gunzipSync(object) : Buffer.from(object)
    for (let at = 0; at < raw.length; ) {
      const end = at + LENGTH_BYTES + raw.readUInt32BE(at)
      const body = raw.subarray(at + LENGTH_BYTES, end)
      chain.update(createHash('sha256').update(body).digest())
      read.push(messageOf(decode(body) as [number, number, string, string, Uint8Array]))
      at = end
    }
  } catch (error) {
    broken.push(`segment ${segment.k} cannot be read: ${error instanceof Error ? error.message : error}`)
  }
  if (chain.digest('hex') !== segment.chain_after) broken.push(`the entries of segment ${segment.k} do not add up to its chain`)
  return read
}

function messageOf([sequence, time, subject, block, data]: [number, number, string, string, Uint8Array]): StoredMessage {
  let known: Record<string, string[]> | undefined
  const headers = (): Record<string, string[]> => {
    if (known) return known
    const found: Record<string, string[]> = {}
    known = found
    for (const line of block.split('\r\n').slice(1)) {
      const colon = line.indexOf(':')
      if (colon > 0) found[line.slice(0, colon)] = [...(found[line.slice(0, colon)] ?? []), line.slice(colon + 1).trim()]
    }
    return found
  }
  return { sequence, time, subject, data, headers, header: (name) => headers()[name]?.at(-1) }
}

function sha256(data: Uint8Array): string {
  return createHash('sha256').update(data).digest('hex')
}

/** Returns the whole history in order: the messages in the stream, and the deleted ones from the archive. */
export function wholeHistory(stored: readonly StoredMessage[], { segments }: Archived): StoredMessage[] {
  const here = new Set(stored.map(({ sequence }) => sequence))
  const gone = segments.flatMap(({ events }) => events.filter(({ sequence }) => !here.has(sequence)))
  return [...stored, ...gone].sort((a, b) => a.sequence - b.sequence)
}
