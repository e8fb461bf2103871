import { keyText, type PassKey, sha256 } from '@passover/schemas'
import { Chain, decodeFrames, type Frame, SegmentDamaged, segmentRange, sequenceOf } from '../segment/format.js'
import { decodeIndex, digestPrefix, readDigestIndex } from '../segment/pass-index.js'
import { unpackSegment } from '../segment/unpack.js'
import type { ManifestEntry } from './manifest.js'

/** A defect of an archived entry, or of a whole segment if no entry can be named. */
export interface ArchiveFault {
  /** Number of the segment. */
  k: number
  sequence?: number | undefined
  pass?: PassKey | undefined
  what: string
}

/** The stored bytes of a segment; `undefined` if they are missing. */
export interface SegmentBytes {
  object: Uint8Array | undefined
  index: Uint8Array | undefined
}

export interface SegmentValidation {
  /** The frames that could be read, in order. */
  frames: Frame[]
  /** Defects found. The first one is decisive; later ones may be its consequences. */
  faults: ArchiveFault[]
  /** Returns the pass that an entry belonged to according to the index. */
  passOf(sequence: number): PassKey | undefined
}

/**
 * Validates a segment against its manifest entry and its index. Finds entries that were changed, added, moved, duplicated or removed, and the point
 * at which a segment was truncated. Never throws, whatever the input.
 */
export async function validateSegment(entry: ManifestEntry, { object, index }: SegmentBytes): Promise<SegmentValidation> {
  const { k } = entry
  const known = new SegmentIndex(entry, index)
  const { frames, broken, raw_size } = object
    ? await framesIn(entry, object)
    : { frames: [], broken: new SegmentDamaged(`object ${entry.object} is missing`, 0), raw_size: 0 }
  const faults: ArchiveFault[] = []
  const passOf = (sequence: number) => known.named(sequence).pass
  const say = (what: string, sequence?: number) => faults.push({ k, what, ...known.named(sequence) })
  if (!object) {
    say(broken?.what ?? '', undefined)
    return { frames, faults, passOf }
  }
  const unlike = wholeFault(entry, frames, { object, raw_size })
  if (known.fault !== undefined && !broken && unlike === undefined) {
    say(`${known.fault}, but its entries are intact: \`passover audit rebuild\` rebuilds it from them`)
    return { frames, faults, passOf }
  }
  for (const { sequence, what } of differences(frames, known, broken)) say(what, sequence)
  if (faults.length === 0 && known.fault !== undefined) say(known.fault)
  if (faults.length === 0 && unlike !== undefined) say(unlike)
  return { frames, faults, passOf }
}

/** Returns the first difference between a whole segment and its manifest entry, regardless of its index. */
function wholeFault(entry: ManifestEntry, frames: readonly Frame[], { object, raw_size }: { object: Uint8Array; raw_size: number }) {
  const what = factsFault(entry, frames) ?? chainFault(entry, frames) ?? sizesFault(entry, { size: object.length, raw_size })
  if (what !== undefined || sha256(object) === entry.sha256) return what
  return `the bytes of ${entry.object} differ from the sealed ones, but its entries do not`
}

/** The content of the index, as far as it can be read. */
class SegmentIndex {
  readonly prints: Map<number, string> | undefined
  readonly fault: string | undefined
  readonly #passes = new Map<number, PassKey>()

  constructor({ k, index: name, index_sha256 }: ManifestEntry, bytes: Uint8Array | undefined) {
    if (!bytes) {
      this.fault = `index ${name} is missing`
      return
    }
    if (index_sha256 !== undefined && sha256(bytes) !== index_sha256) this.fault = `index ${name} differs from the sealed one`
    try {
      for (const { key, sequences } of decodeIndex(bytes)) for (const sequence of sequences) this.#passes.set(sequence, key)
      this.prints = readDigestIndex(bytes, k)
    } catch {
      this.fault ??= `index ${name} cannot be read`
    }
  }

  /** Returns a sequence with the pass that it belongs to. */
  named(sequence: number | undefined): Pick<ArchiveFault, 'sequence' | 'pass'> {
    if (sequence === undefined) return {}
    const pass = this.#passes.get(sequence)
    return pass ? { sequence, pass } : { sequence }
  }
}

interface Difference {
  sequence?: number
  what: string
}

/** Compares each entry with the digest prefix of what was sealed; the lowest sequence comes first. */
function differences(frames: readonly Frame[], { prints }: SegmentIndex, broken: SegmentDamaged | undefined): Difference[] {
  const found: Difference[] = []
  const present = new Set<number>()
  for (const frame of frames) {
    const sequence = sequenceOf(frame)
    present.add(sequence)
    const print = prints?.get(sequence)
    if (prints && print === undefined) found.push({ sequence, what: 'was added: this sequence was not sealed' })
    else if (prints && print !== digestPrefix(frame.digest)) found.push({ sequence, what: 'was changed: it differs from the sealed entry' })
  }
  const last = frames.length > 0 ? sequenceOf(frames[frames.length - 1] as Frame) : 0
  const ends = broken === undefined ? Number.POSITIVE_INFINITY : last
  for (const sequence of prints?.keys() ?? []) {
    if (!present.has(sequence) && sequence <= ends) found.push({ sequence, what: 'is missing' })
  }
  if (broken) found.push(brokenAt(prints, { last, broken }))
  return found.sort((a, b) => (a.sequence ?? Number.POSITIVE_INFINITY) - (b.sequence ?? Number.POSITIVE_INFINITY))
}

/** Names the entry that could not be read: the one that was sealed after the last readable one. */
function brokenAt(prints: Map<number, string> | undefined, { last, broken }: { last: number; broken: SegmentDamaged }): Difference {
  const next = [...(prints?.keys() ?? [])].sort((a, b) => a - b).find((sequence) => sequence > last)
  const sequence = next ?? (last > 0 ? last : undefined)
  return { what: `cannot be read: ${broken.message}`, ...(sequence === undefined ? {} : { sequence }) }
}

interface Read {
  frames: Frame[]
  broken: SegmentDamaged | undefined
  raw_size: number
}

async function framesIn(entry: ManifestEntry, object: Uint8Array): Promise<Read> {
  const raw = entry.compression === 'gzip' ? await unpackSegment(object, entry) : { bytes: object, damage: undefined, exceeds: false }
  const frames: Frame[] = []
  const raw_size = raw.bytes.length
  try {
    for (const frame of decodeFrames(raw.bytes)) frames.push(frame)
  } catch (error) {
    if (!(error instanceof SegmentDamaged)) throw error
    return { frames, broken: raw.exceeds ? raw.damage : error, raw_size }
  }
  return { frames, broken: raw.damage, raw_size }
}

function factsFault(entry: ManifestEntry, frames: readonly Frame[]): string | undefined {
  const range = segmentRange(entry.k)
  const first = frames[0]
  const last = frames.at(-1)
  if (first && sequenceOf(first) < range.first) return `sequence ${sequenceOf(first)} does not belong here`
  if (last && sequenceOf(last) > range.last) return `sequence ${sequenceOf(last)} does not belong here`
  if (frames.length !== entry.count) return `contains ${frames.length} entries, but its manifest entry has ${entry.count}`
  const from = first ? sequenceOf(first) : 0
  const to = last ? sequenceOf(last) : 0
  if (from !== entry.first || to !== entry.last)
    return `contains sequences ${from} to ${to}, but its manifest entry has ${entry.first} to ${entry.last}`
  return timesFault(entry, first, last)
}

/** Compares the times of the first and last message. An erased entry has no time any more. */
function timesFault({ first_time, last_time }: ManifestEntry, first: Frame | undefined, last: Frame | undefined): string | undefined {
  if (first?.kind === 'event' && first.event.time !== first_time)
    return `begins at ${first.event.time}, but its manifest entry has ${first_time}`
  if (last?.kind === 'event' && last.event.time !== last_time) return `ends at ${last.event.time}, but its manifest entry has ${last_time}`
  return undefined
}

function sizesFault(entry: ManifestEntry, { size, raw_size }: { size: number; raw_size: number }): string | undefined {
  if (size !== entry.size) return `${entry.object} has ${size} bytes, but its manifest entry has ${entry.size}`
  return raw_size === entry.raw_size ? undefined : `its entries have ${raw_size} bytes, but its manifest entry has ${entry.raw_size}`
}

function chainFault(entry: ManifestEntry, frames: readonly Frame[]): string | undefined {
  const chain = new Chain(Buffer.from(entry.chain_before, 'hex'))
  for (const { digest } of frames) chain.add(digest)
  return chain.end() === entry.chain_after
    ? undefined
    : 'its entries do not match its chain value: manifest, index or entries were rewritten'
}

/** Formats a fault as one line. */
export function faultText({ k, sequence, pass, what }: ArchiveFault): string {
  const where = sequence === undefined ? '' : `, sequence ${sequence}${pass ? ` (${keyText(pass)})` : ''}`
  return `segment ${k}${where}: ${what}`
}
