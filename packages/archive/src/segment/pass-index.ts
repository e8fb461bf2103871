import { Decoder, encode } from '@msgpack/msgpack'
import type { Fact, PassKey } from '@passover/schemas'
import { errorText, isFirst, keyText } from '@passover/schemas'
import { z } from 'zod'
import { SEGMENT_SIZE, SegmentDamaged } from './format.js'

/** Row of the index: a pass and the sequences of its messages in the segment, so that they are found without decompressing the segment. */
type Row = [originator: string, subagent: string, id: string, session: string | null, sequences: number[]]
/** Validated by hand: a schema takes 2 ms for the rows of a segment, and each deletion reads all of them. */
const row = z.custom<Row>(isRow)
const bytes = z.custom<Uint8Array>((value) => value instanceof Uint8Array)
const indexBody = z.object({
  v: z.literal(1),
  k: z.int(),
  passes: z.array(row),
  /** Rows of passes whose first step is in another segment. Indexes of earlier versions lack the field; it is then not known. */
  later: z.array(z.int()).optional(),
  /**
   * For each entry, its offset in the segment (2 bytes) and the first 8 bytes of its digest. The chain proves that an entry was changed; this shows
   * which one.
   */
  prints: bytes.optional(),
  /** Large parts that its messages refer to, as `<owner>/<token>`. Indexes of earlier versions lack the field; they are then not known. */
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
  /** Sequences of its messages in this segment, in ascending order. */
  sequences: number[]
  /** True if its first step is in this segment; `undefined` if an earlier version wrote the index, which does not record it. */
  begins: boolean | undefined
}

interface Building extends IndexedPass {
  /**
   * Use of its id by steps in this segment: `no` step yet, `once` for one pass, `again` for several passes, which may belong to different sessions.
   */
  used: 'no' | 'once' | 'again'
}

/** Builds the index of a segment while its events are read. */
export class IndexBuilder {
  readonly #passes = new Map<string, Building>()
  /** Large parts, with the sequences of the messages that refer to them. */
  readonly #parts = new Map<string, number[]>()

  add(fact: Fact, session: string | undefined): void {
    const key = keyOfFact(fact)
    if (!key) return
    const text = keyText(key)
    const known = this.#passes.get(text)
    const isStep = fact.type === 'step'
    const begins = isStep && isFirst(fact)
    if (!known) {
      this.#passes.set(text, { key, session_id: session, sequences: [fact.sequence], begins, used: isStep ? 'once' : 'no' })
      return
    }
    known.sequences.push(fact.sequence)
    known.begins ||= begins
    if (isStep && known.used !== 'again') known.used = begins && known.used === 'once' ? 'again' : 'once'
    // For several passes with one id no session is recorded, so that a search for any of them reads them all.
    known.session_id = known.used === 'again' ? undefined : (known.session_id ?? session)
  }

  /** Returns true if the segment has messages of this pass (a `keyText`). */
  has(text: string): boolean {
    return this.#passes.has(text)
  }

  sequencesOf(text: string): readonly number[] {
    return this.#passes.get(text)?.sequences ?? []
  }

  /** Returns a copy without some sequences. */
  without(erased: { has(sequence: number): boolean }): IndexBuilder {
    const next = new IndexBuilder()
    for (const [text, pass] of this.#passes) {
      const sequences = pass.sequences.filter((sequence) => !erased.has(sequence))
      if (sequences.length > 0) next.#passes.set(text, { ...pass, sequences })
    }
    for (const [part, sequences] of this.#parts) {
      const kept = sequences.filter((sequence) => !erased.has(sequence))
      if (kept.length > 0) next.#parts.set(part, kept)
    }
    return next
  }

  addPart(part: string, sequence: number): void {
    const known = this.#parts.get(part)
    if (known) known.push(sequence)
    else this.#parts.set(part, [sequence])
  }

  /** Returns true if a message that is not erased refers to a part. */
  refersTo(part: string, erased?: { has(sequence: number): boolean }): boolean {
    return this.#parts.get(part)?.some((sequence) => !erased?.has(sequence)) ?? false
  }

  /** Returns the rows of the passes so far. */
  rows(): IterableIterator<IndexedPass> {
    return this.#passes.values()
  }

  encode(k: number, prints?: Uint8Array): Uint8Array {
    return encodeIndex(k, [...this.#passes.values()], { prints, parts: this.#parts.keys() })
  }
}

/** Optional content of an index. */
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

/** Decodes the rows of an index. Throws SegmentDamaged. */
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

/** Returns the ids in an index and the parts that its segment refers to (`undefined` if it does not list them). Throws SegmentDamaged. */
export function readIndexIds(bytes: Uint8Array): { ids: string[]; parts: string[] | undefined } {
  const { passes, parts } = bodyOf(bytes)
  return { ids: passes.map(([, , id]) => id), parts }
}

/** Returns the pass that a message belongs to. For a request, this is the one that its header names. */
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

/** Collects the digest prefixes of a segment's entries. */
export class DigestIndexBuilder {
  readonly #prints = Buffer.allocUnsafeSlow(SEGMENT_SIZE * (OFFSET_BYTES + DIGEST_PREFIX_BYTES))
  #used = 0

  /** Adds an entry. `digest` is a binary string. */
  add(sequence: number, digest: string): void {
    this.#used = this.#prints.writeUInt16BE(sequence % SEGMENT_SIZE, this.#used)
    this.#used += this.#prints.write(digest, this.#used, DIGEST_PREFIX_BYTES, 'latin1')
  }

  bytes(): Buffer {
    return this.#prints.subarray(0, this.#used)
  }
}

/** Returns the digest prefix of each entry (a binary string) by its sequence from the index of segment k, or `undefined` if the index has none. */
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

/** Returns the prefix of a digest as the index stores it. */
export function digestPrefix(digest: Uint8Array): string {
  return Buffer.from(digest.buffer, digest.byteOffset, DIGEST_PREFIX_BYTES).toString('latin1')
}
