import type { PassRecord } from '@passover/schemas'
import { createdAt } from './build-record.js'

/**
 * Where a pass stands in every query, for good: when it was asked for, then the sequence of its request (or, where that is unknown, of its first
 * step). No two passes have the same.
 */
export interface ListPosition {
  created_at: number
  sequence: number
}

export function isBefore(a: ListPosition, b: ListPosition): boolean {
  return a.created_at > b.created_at || (a.created_at === b.created_at && a.sequence > b.sequence)
}

export function firstSequence({ requests, held, work, return: returned, last }: PassRecord['sequences']): number {
  return requests[0] ?? held ?? work ?? returned ?? last
}

export function positionOf(record: PassRecord): ListPosition {
  return { created_at: createdAt(record), sequence: firstSequence(record.sequences) }
}

/** A cursor goes on after the position that it names. */
export function listCursor({ created_at, sequence }: ListPosition): string {
  return `${created_at}-${sequence}`
}

/** Undefined: it is none that was given out. */
export function parseListCursor(cursor: string): ListPosition | undefined {
  const [, created_at, sequence] = /^(\d{1,16}(?:\.\d{1,9})?)-(\d{1,16})$/.exec(cursor) ?? []
  return created_at === undefined ? undefined : { created_at: Number(created_at), sequence: Number(sequence) }
}
