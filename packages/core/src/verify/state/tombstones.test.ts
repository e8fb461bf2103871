import type { Fact } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { Erasures } from './erasures.js'
import type { RecordedMessage } from './recorded-message.js'

const DIGEST = new Uint8Array(32).fill(7)

function said(sequence: number, sender: string | undefined, body: unknown): RecordedMessage {
  const fact: Fact = { type: 'other', sequence, time: sequence }
  return { fact, sender, version: 'custody', body: () => body } as unknown as RecordedMessage
}

const asked = said(9, 'maria', { v: 1, kind: 'erase', session: 's', reason: 'r' })
const stone = (sequence: number, digest: Uint8Array, sender: string | undefined = 'passover') =>
  said(10, sender, { v: 1, kind: 'erased', erase: 9, passes: [{ pass: 'a'.repeat(64), frames: [[sequence, 1, digest]], parts: [] }] })

describe('erased entries', () => {
  it('are named where no tombstone stands for them', () => {
    const erasures = new Erasures(1)
    erasures.erased({ sequence: 5, digest: DIGEST }, 'nameless')
    expect(erasures.unseen(5)).toBe(true)
    expect([...erasures.missing()]).toEqual([
      { severity: 'fault', rule: 'erasure', sequence: 5, what: 'was erased, but no tombstone records it' },
    ])
  })

  it('are not where one does: with the same digest, by the audit, about an erasure that a person asked for', () => {
    const missing = (...all: RecordedMessage[]) => {
      const erasures = new Erasures(1)
      erasures.erased({ sequence: 5, digest: DIGEST }, 'named')
      for (const one of all) erasures.take(one)
      return [...erasures.missing()].length
    }
    expect(missing(asked, stone(5, DIGEST))).toBe(0)
    expect(missing(stone(5, DIGEST))).toBe(1)
    expect(missing(asked, stone(5, DIGEST, 'maria'))).toBe(1)
    expect(missing(asked, said(10, undefined, undefined))).toBe(1)
    expect(missing(asked, stone(5, new Uint8Array(32)))).toBe(1)
    expect(missing(asked, stone(6, DIGEST))).toBe(1)
  })

  it('are not where the erasure was asked for before what is read', () => {
    const missing = (from: number, ...all: RecordedMessage[]) => {
      const erasures = new Erasures(from)
      erasures.erased({ sequence: 15, digest: DIGEST }, 'named')
      for (const one of all) erasures.take(one)
      return [...erasures.missing()].length
    }
    expect(missing(10, stone(15, DIGEST))).toBe(0)
    expect(missing(10, stone(15, DIGEST, 'maria'))).toBe(1)
    expect(missing(10, said(10, 'passover', { v: 1, kind: 'done', erase: 9, passes: 1, entries: 1, parts: 0 }))).toBe(1)
    expect(missing(10, said(10, 'passover', undefined))).toBe(1)
    // It would have been read.
    expect(missing(9, stone(15, DIGEST))).toBe(1)
  })

  it('removed ones cannot be looked at', () => {
    const erasures = new Erasures(1)
    erasures.removed({ first: 4096, last: 8191 })
    expect([4095, 4096, 8191, 8192].map((sequence) => erasures.unseen(sequence))).toEqual([false, true, true, false])
    expect([...erasures.missing()]).toEqual([])
  })
})
