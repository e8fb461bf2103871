import type { PassRecord } from '@passover/schemas'
import { createdAt } from './build-record.js'

/**
 * Permanent position of a pass in every query: when it was requested, then the sequence of its request (or, if unknown, of its first step). Unique
 * for each pass.
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

/** Returns the cursor of the page that starts after this position. */
export function listCursor({ created_at, sequence }: ListPosition): string {
  return `${created_at}-${sequence}`
}

/** Parses a cursor; `undefined` if it does not have the format of one. */
export function parseListCursor(cursor: string): ListPosition | undefined {
  const [, created_at, sequence] = /^(\d{1,16}(?:\.\d{1,9})?)-(\d{1,16})$/.exec(cursor) ?? []
  return created_at === undefined ? undefined : { created_at: Number(created_at), sequence: Number(sequence) }
}
