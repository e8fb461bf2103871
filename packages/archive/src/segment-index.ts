import { decode, encode } from '@msgpack/msgpack'
import type { Fact, PassKey, Step } from '@passover/schemas'
import { keyText } from '@passover/schemas'
import { z } from 'zod'

/** Which passes a segment speaks of, and at which sequences: found without unpacking the segment. */
const row = z.tuple([z.string(), z.string(), z.string(), z.string().nullable(), z.array(z.int())])
const indexBody = z.object({
  v: z.literal(1),
  k: z.int(),
  passes: z.array(row),
  /** Rows of passes whose first step lies elsewhere; missing in an index of before: nothing is known. */
  later: z.array(z.int()).optional(),
})

export interface IndexedPass {
  key: PassKey
  session_id: string | undefined
  /** Sequences of its messages in this segment, ascending. */
  sequences: number[]
  /** Its first step lies in this segment, as far as is known. */
  begins: boolean
}

/** Collects the index of one segment while its events come by. */
export class IndexBuilder {
  private readonly passes = new Map<string, IndexedPass>()

  add(fact: Fact, session: string | undefined): void {
    const key = keyOfFact(fact)
    if (!key) return
    const text = keyText(key)
    const known = this.passes.get(text)
    const begins = fact.type === 'step' && isFirst(fact)
    if (!known) {
      this.passes.set(text, { key, session_id: session, sequences: [fact.sequence], begins })
      return
    }
    known.sequences.push(fact.sequence)
    known.session_id ??= session
    known.begins ||= begins
  }

  /** Whether the segment speaks of this pass (a `keyText`). */
  has(text: string): boolean {
    return this.passes.has(text)
  }

  encode(k: number): Uint8Array {
    return encodeIndex(k, [...this.passes.values()])
  }
}

export function encodeIndex(k: number, rows: readonly IndexedPass[]): Uint8Array {
  const passes = rows.map(({ key, session_id, sequences }) => [key.originator, key.subagent, key.id, session_id ?? null, sequences])
  const later = rows.flatMap(({ begins }, at) => (begins ? [] : [at]))
  return encode({ v: 1, k, passes, later })
}

export function decodeIndex(bytes: Uint8Array): IndexedPass[] {
  const { passes, later } = indexBody.parse(decode(bytes))
  const elsewhere = new Set(later)
  return passes.map(([originator, subagent, id, session, sequences], at) => ({
    key: { originator, subagent, id },
    session_id: session ?? undefined,
    sequences,
    begins: later !== undefined && !elsewhere.has(at),
  }))
}

/** The server took this step as the first of its journal. */
export function isFirst({ guard, key }: Step): boolean {
  return guard?.sequence === 0 && guard.subject === `*.${key.originator}.${key.subagent}.${key.id}.*`
}

/** The pass that a message speaks of: a request as far as its header says. */
export function keyOfFact(fact: Fact): PassKey | undefined {
  switch (fact.type) {
    case 'step':
    case 'decision':
    case 'event':
      return fact.key
    case 'request':
      return fact.id === undefined ? undefined : { originator: fact.originator, subagent: fact.subagent, id: fact.id }
    default:
      return undefined
  }
}
