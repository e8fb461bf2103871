import { decode, encode } from '@msgpack/msgpack'
import type { Fact, PassKey } from '@passover/schemas'
import { keyText } from '@passover/schemas'
import { z } from 'zod'

/** Which passes a segment speaks of, and at which sequences: found without unpacking the segment. */
const row = z.tuple([z.string(), z.string(), z.string(), z.string().nullable(), z.array(z.int())])
const indexBody = z.object({ v: z.literal(1), k: z.int(), passes: z.array(row) })

export interface IndexedPass {
  key: PassKey
  session_id: string | undefined
  /** Sequences of its messages in this segment, ascending. */
  sequences: number[]
}

/** Collects the index of one segment while its events come by. */
export class IndexBuilder {
  private readonly passes = new Map<string, IndexedPass>()

  add(fact: Fact, session: string | undefined): void {
    const key = keyOfFact(fact)
    if (!key) return
    const text = keyText(key)
    const known = this.passes.get(text)
    if (!known) {
      this.passes.set(text, { key, session_id: session, sequences: [fact.sequence] })
      return
    }
    known.sequences.push(fact.sequence)
    known.session_id ??= session
  }

  encode(k: number): Uint8Array {
    const passes = [...this.passes.values()].map(({ key, session_id, sequences }) => [
      key.originator,
      key.subagent,
      key.id,
      session_id ?? null,
      sequences,
    ])
    return encode({ v: 1, k, passes })
  }
}

export function decodeIndex(bytes: Uint8Array): IndexedPass[] {
  return indexBody
    .parse(decode(bytes))
    .passes.map(([originator, subagent, id, session, sequences]) => ({
      key: { originator, subagent, id },
      session_id: session ?? undefined,
      sequences,
    }))
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
