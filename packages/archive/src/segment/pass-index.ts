import { Decoder, encode } from '@msgpack/msgpack'
import type { Fact, PassKey } from '@passover/schemas'
import { errorText, isFirst, keyText } from '@passover/schemas'
import { z } from 'zod'
import { SEGMENT_SIZE, SegmentDamaged } from './format.js'

/** Which passes a segment speaks of, and at which sequences: found without unpacking the segment. */
type Row = [originator: string, subagent: string, id: string, session: string | null, sequences: number[]]
/** By hand: a schema of it takes two ms for the rows of a segment, and whoever deletes reads each. */
const row = z.custom<Row>(isRow)
const bytes = z.custom<Uint8Array>((value) => value instanceof Uint8Array)
const indexBody = z.object({
  v: z.literal(1),
  k: z.int(),
  passes: z.array(row),
  /** Rows of passes whose first step lies elsewhere; missing in an index of before: nothing is known. */
  later: z.array(z.int()).optional(),
  /** Of each entry its place in the segment (2 bytes) and the beginning of its digest (8): the chain proves that one was touched, this says which. */
  prints: bytes.optional(),
  /** Large parts that its messages refer to, as `<owner>/<token>`; missing in an index of before: nothing is known. */
  parts: z.array(z.string()).optional(),
})

function isRow(value: unknown): value is Row {
  if (!Array.isArray(value) || value.length !== 5) return false
  const [originator, subagent, id, session, sequences] = value as unknown[]
  const named = typeof originator === 'string' && typeof subagent === 'string' && typeof id === 'string'
  const texts = named && (session === null || typeof session === 'string')
  return texts && Array.isArray(sequences) && sequences.every(Number.isSafeInteger)
}

const decoder = new Decoder()

export interface IndexedPass {
  key: PassKey
  session_id: string | undefined
  /** Sequences of its messages in this segment, ascending. */
  sequences: number[]
  /** Its first step lies in this segment; undefined: the index is of an earlier version, which does not say. */
  begins: boolean | undefined
}

interface Building extends IndexedPass {
  /** How far its id was used here: not by a step yet, by one pass, or by several, which may be of several sessions. */
  used: 'no' | 'once' | 'again'
}

/** Collects the index of one segment while its events come by. */
export class IndexBuilder {
  private readonly passes = new Map<string, Building>()
  /** Large parts, and the messages that refer to them. */
  private readonly parts = new Map<string, number[]>()

  add(fact: Fact, session: string | undefined): void {
    const key = keyOfFact(fact)
    if (!key) return
    const text = keyText(key)
    const known = this.passes.get(text)
    const isStep = fact.type === 'step'
    const begins = isStep && isFirst(fact)
    if (!known) {
      this.passes.set(text, { key, session_id: session, sequences: [fact.sequence], begins, used: isStep ? 'once' : 'no' })
      return
    }
    known.sequences.push(fact.sequence)
    known.begins ||= begins
    if (isStep && known.used !== 'again') known.used = begins && known.used === 'once' ? 'again' : 'once'
    // Of several passes it names no session: who looks for one of them then reads them all.
    known.session_id = known.used === 'again' ? undefined : (known.session_id ?? session)
  }

  /** Whether the segment speaks of this pass (a `keyText`). */
  has(text: string): boolean {
    return this.passes.has(text)
  }

  sequencesOf(text: string): readonly number[] {
    return this.passes.get(text)?.sequences ?? []
  }

  /** The same without what is said of some sequences. */
  without(erased: { has(sequence: number): boolean }): IndexBuilder {
    const next = new IndexBuilder()
    for (const [text, pass] of this.passes) {
      const sequences = pass.sequences.filter((sequence) => !erased.has(sequence))
      if (sequences.length > 0) next.passes.set(text, { ...pass, sequences })
    }
    for (const [part, sequences] of this.parts) {
      const kept = sequences.filter((sequence) => !erased.has(sequence))
      if (kept.length > 0) next.parts.set(part, kept)
    }
    return next
  }

  addPart(part: string, sequence: number): void {
    const known = this.parts.get(part)
    if (known) known.push(sequence)
    else this.parts.set(part, [sequence])
  }

  /** Whether a message that is not erased refers to a part. */
  refersTo(part: string, erased?: { has(sequence: number): boolean }): boolean {
    return this.parts.get(part)?.some((sequence) => !erased?.has(sequence)) ?? false
  }

  /** What it says of the passes so far. */
  rows(): IterableIterator<IndexedPass> {
    return this.passes.values()
  }

  encode(k: number, prints?: Uint8Array): Uint8Array {
    return encodeIndex(k, [...this.passes.values()], { prints, parts: this.parts.keys() })
  }
}

/** What an index holds beside its passes. */
export interface IndexExtras {
  prints?: Uint8Array | undefined
  parts?: Iterable<string> | undefined
}

export function encodeIndex(k: number, rows: readonly IndexedPass[], { prints, parts }: IndexExtras = {}): Uint8Array {
  const passes = rows.map(({ key, session_id, sequences }) => [key.originator, key.subagent, key.id, session_id ?? null, sequences])
  const later = rows.flatMap(({ begins }, at) => (begins ? [] : [at]))
  return encode({ v: 1, k, passes, later, ...(prints ? { prints } : {}), ...(parts ? { parts: [...parts] } : {}) })
}

function bodyOf(index: Uint8Array): z.infer<typeof indexBody> {
  try {
    return indexBody.parse(decoder.decode(index))
  } catch (error) {
    throw new SegmentDamaged(`an index cannot be read: ${errorText(error, 'the index')}`, 0)
  }
}

/** Throws SegmentDamaged. */
export function decodeIndex(bytes: Uint8Array): IndexedPass[] {
  const { passes, later } = bodyOf(bytes)
  const elsewhere = new Set(later)
  return passes.map(([originator, subagent, id, session, sequences], at) => ({
    key: { originator, subagent, id },
    session_id: session ?? undefined,
    sequences,
    begins: later && !elsewhere.has(at),
  }))
}

/** Ids of its passes, and the parts that it says its segment refers to (undefined: it says nothing of them). Throws SegmentDamaged. */
export function readIndexIds(bytes: Uint8Array): { ids: string[]; parts: string[] | undefined } {
  const { passes, parts } = bodyOf(bytes)
  return { ids: passes.map(([, , id]) => id), parts }
}

/** The pass that a message speaks of: a request as far as its header says. */
export function keyOfFact(fact: Fact): PassKey | undefined {
  switch (fact.type) {
    case 'step':
    case 'decision':
    case 'event':
    case 'untrusted':
      return fact.key
    case 'request':
      return fact.id === undefined ? undefined : { originator: fact.originator, subagent: fact.subagent, id: fact.id }
    default:
      return undefined
  }
}

const OFFSET_BYTES = 2
const DIGEST_PREFIX_BYTES = 8

/** Collects the prints of a segment's entries. */
export class DigestIndexBuilder {
  private readonly prints = Buffer.allocUnsafeSlow(SEGMENT_SIZE * (OFFSET_BYTES + DIGEST_PREFIX_BYTES))
  private used = 0

  /** `digest`: a character a byte. */
  add(sequence: number, digest: string): void {
    this.used = this.prints.writeUInt16BE(sequence % SEGMENT_SIZE, this.used)
    this.used += this.prints.write(digest, this.used, DIGEST_PREFIX_BYTES, 'latin1')
  }

  bytes(): Buffer {
    return this.prints.subarray(0, this.used)
  }
}

/** Print of each entry (a character a byte) by its sequence, as the index of segment k has them; undefined where it has none. */
export function readDigestIndex(index: Uint8Array, k: number): Map<number, string> | undefined {
  const { prints } = bodyOf(index)
  if (!prints) return undefined
  const text = Buffer.from(prints.buffer, prints.byteOffset, prints.byteLength).toString('latin1')
  const found = new Map<number, string>()
  for (let at = 0; at + OFFSET_BYTES + DIGEST_PREFIX_BYTES <= text.length; at += OFFSET_BYTES + DIGEST_PREFIX_BYTES) {
    const sequence = k * SEGMENT_SIZE + text.charCodeAt(at) * 256 + text.charCodeAt(at + 1)
    found.set(sequence, text.slice(at + OFFSET_BYTES, at + OFFSET_BYTES + DIGEST_PREFIX_BYTES))
  }
  return found
}

/** The print that belongs to a digest. */
export function digestPrefix(digest: Uint8Array): string {
  return Buffer.from(digest.buffer, digest.byteOffset, DIGEST_PREFIX_BYTES).toString('latin1')
}
