import { createHash } from 'node:crypto'
import { decode } from '@passover/bus'
import type { SimServer } from '../server/server.js'
import type { Kept } from '../server/stream.js'

const SEGMENT = 4_096

interface Entry {
  k: number
  object: string
  chain_before: string
  chain_after: string
}

/** A message as it was archived. */
interface Frame {
  sequence: number
  time: number
  subject: string
  headers: string
  data: Uint8Array
  digest: Uint8Array
}

interface Wrong {
  kind: string
  text: string
}

const read = new WeakMap<SimServer, ArchiveReading>()

/** The archive as its bucket has it. */
export function archiveIn(server: SimServer): ArchiveReading {
  const known = read.get(server) ?? new ArchiveReading(server)
  read.set(server, known)
  return known
}

/** Reads segments by the format that packages/archive writes down, with none of its code. */
export class ArchiveReading {
  readonly #server: SimServer
  readonly #segments = new Map<string, Map<number, Frame>>()

  constructor(server: SimServer) {
    this.#server = server
  }

  /** Whether a sealed segment has this message as it was stored. */
  has(kept: Kept): boolean {
    const row = this.#table.rows.get(`segment.${String(Math.floor(kept.sequence / SEGMENT)).padStart(10, '0')}`)
    const entry = row?.data && entryIn(row.data)
    const frame = entry && this.#frames(entry).get(kept.sequence)
    return frame !== undefined && isSame(frame, kept)
  }

  /** `messages`: how many there are of each segment; of what was stored until then (server ms) each full one is sealed. */
  *wrong({ messages, until }: { messages: number; until: number }): Iterable<Wrong> {
    const entries = [...this.#table.rows]
      .flatMap(([key, { data }]) => (key.startsWith('segment.') && data ? [entryIn(data)] : []))
      .sort((a, b) => a.k - b.k)
    const stored = new Map<number, Kept[]>()
    for (const kept of this.#server.stream.log) {
      const k = Math.floor(kept.sequence / SEGMENT)
      stored.set(k, [...(stored.get(k) ?? []), kept])
    }
    let chain = '0'.repeat(64)
    let next = 0
    for (const entry of entries) {
      if (entry.k !== next) yield { kind: 'archive_gap', text: `segment ${next} is not sealed, ${entry.k} is` }
      if (entry.chain_before !== chain) yield { kind: 'archive_chain', text: `segment ${entry.k} does not continue the chain` }
      next = entry.k + 1
      chain = entry.chain_after
      yield* this.#wrongIn(entry, stored.get(entry.k) ?? [])
    }
    const last = stored.get(next)
    const whole = last && last.length >= messages - (next === 0 ? 1 : 0)
    if (whole && (last.at(-1)?.time ?? 0) < until) yield { kind: 'archive_late', text: `segment ${next} is full, and not sealed` }
  }

  *#wrongIn(entry: Entry, stored: Kept[]): Iterable<Wrong> {
    const frames = this.#frames(entry)
    const hash = createHash('sha256').update(Buffer.from(entry.chain_before, 'hex'))
    for (const { digest } of frames.values()) hash.update(digest)
    if (hash.digest('hex') !== entry.chain_after) yield { kind: 'archive_chain', text: `segment ${entry.k} does not add up to its chain` }
    const kept = [...frames.keys()].join()
    if (kept !== stored.map(({ sequence }) => sequence).join())
      yield { kind: 'archive_holes', text: `segment ${entry.k} holds ${kept}, stored were ${stored.map(({ sequence }) => sequence)}` }
    for (const one of stored) {
      const frame = frames.get(one.sequence)
      if (frame && !isSame(frame, one))
        yield { kind: 'archive_changed', text: `${one.subject} (${one.sequence}) is archived as something else` }
    }
  }

  get #table() {
    return this.#server.table(this.#server.subjects.bucket('archive'))
  }

  #frames({ object }: Entry): Map<number, Frame> {
    const known = this.#segments.get(object)
    if (known) return known
    const frames = framesIn(this.#server.bucket(this.#server.subjects.bucket('archive')).get(object)?.data)
    this.#segments.set(object, frames)
    return frames
  }
}

function entryIn(data: Uint8Array): Entry {
  const body = decode(data)
  return (body.ok ? body.value : { k: -1 }) as Entry
}

/** Each a length, and a list of sequence, time, subject, headers and bytes. */
function framesIn(data: Uint8Array | undefined): Map<number, Frame> {
  const frames = new Map<number, Frame>()
  const bytes = Buffer.from(data ?? [])
  for (let at = 0; at < bytes.length; ) {
    const end = at + 4 + bytes.readUInt32BE(at)
    const frame = bytes.subarray(at + 4, end)
    const body = decode(frame, 'msgpack')
    const [sequence, time, subject, headers, content] = (body.ok ? body.value : []) as [number, number, string, string, Uint8Array]
    const digest = createHash('sha256').update(frame).digest()
    frames.set(sequence, { sequence, time, subject, headers, data: content, digest })
    at = end
  }
  return frames
}

function isSame(frame: Frame, kept: Kept): boolean {
  const { time, subject, headers, data } = frame
  return time === kept.time && subject === kept.subject && headers === kept.headers.text() && Buffer.compare(data, kept.data) === 0
}
