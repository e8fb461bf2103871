import { decode } from '@msgpack/msgpack'
import { type Archived, type ArchivedSegment, type Evidence, PER_SEGMENT } from './archive.js'
import { TimeLimits } from './time-limits.js'
import type { CheckerOptions, Judgement, StoredMessage, Violation } from './types.js'
import type { Checked } from './verdict.js'

interface Seen {
  key?: { originator: string; subagent: string; id: string }
  sequences?: { return?: number }
  error?: { code?: string }
}

/** Input of the evidence check. */
export interface EvidenceInput {
  /** Messages that the stream holds now. */
  stored: readonly StoredMessage[]
  archived: Archived
  /** Bucket `passes`. */
  passes: Evidence['passes']
  /** Judgement of the whole history, from stream and archive. */
  judgement: Judgement
  /** Server time in milliseconds. */
  now: number
}

export interface CheckedEvidence extends Checked {
  /** True if there are no violations and no segment remains to be sealed. */
  whole: boolean
}

/** Tolerance in milliseconds. Nanoseconds are not exact as JavaScript numbers, so two readers may round a stored time differently. */
const ROUNDING_MS = 1
const MAX_SPANS = 20

/**
 * Checks P4: the archive matches the stream entry by entry, its chain is complete, full segments are sealed in time, and each pass has exactly one
 * record, which matches the stream. Checks P2: every sequence that was assigned is in the stream or in the archive.
 */
export function checkEvidence({ stored, archived, passes, judgement, now }: EvidenceInput, options: CheckerOptions = {}): CheckedEvidence {
  const broken = [...archived.broken]
  const here = new Map(stored.map((record) => [record.sequence, record]))
  const last = stored.at(-1)?.sequence ?? 0
  for (const segment of archived.segments) compare(segment, { stored: here, last, broken })
  const due = dueSegments(archived, stored)
  const overdue = due.filter(({ full_at }) => now > new TimeLimits(options).ofSealing(full_at))
  for (const { k, full_at } of overdue) broken.push(`segment ${k} was full ${now - full_at} ms ago and is not sealed`)
  broken.push(...wrongRecords(judgement, passes))
  const lost = lostSpans(here, archived, last)
  const violations = broken.map((what): Violation => ({ promise: 'P4', what }))
  for (const { from, to } of lost.slice(0, MAX_SPANS))
    violations.push({ promise: 'P2', what: `sequences ${from} to ${to} are neither in the stream nor in the archive` })
  const events = archived.segments.reduce((sum, segment) => sum + segment.events.length, 0)
  const counts = {
    P2: { 'messages lost': lost.reduce((sum, { from, to }) => sum + to - from + 1, 0) },
    P4: { 'segments sealed': archived.segments.length, 'yet to be sealed': due.length, 'archived events': events, records: passes.size },
  }
  return { counts, violations, whole: violations.length === 0 && due.length === 0 }
}

/** Returns the full segments that the archive does not have, with the time at which each became full. */
function dueSegments({ segments }: Archived, stored: readonly StoredMessage[]): { k: number; full_at: number }[] {
  const sealed = new Set(segments.map(({ k }) => k))
  const full = Math.floor(((stored.at(-1)?.sequence ?? 0) + 1) / PER_SEGMENT)
  return Array.from({ length: full }, (_, k) => k).flatMap((k) => {
    if (sealed.has(k)) return []
    const first = stored.find(({ sequence }) => sequence >= (k + 1) * PER_SEGMENT - 1)
    return first ? [{ k, full_at: first.time }] : []
  })
}

interface Against {
  stored: ReadonlyMap<number, StoredMessage>
  last: number
  broken: string[]
}

/** Checks that each stored message is in the segment and matches the stream. */
function compare({ k, events }: ArchivedSegment, { stored, last, broken }: Against): void {
  let due = Math.max(1, k * PER_SEGMENT)
  for (const { sequence, time, subject, data } of events) {
    for (; due < sequence; due += 1) if (stored.has(due)) broken.push(`entry ${due} is missing from segment ${k}`)
    due = sequence + 1
    const record = stored.get(sequence)
    // A message that the audit has deleted is only in the archive.
    if (record && (record.subject !== subject || Math.abs(record.time - time) > ROUNDING_MS || !Buffer.from(record.data).equals(data)))
      broken.push(`entry ${sequence} of segment ${k} differs from the stream`)
  }
  for (; due < (k + 1) * PER_SEGMENT && due <= last; due += 1) if (stored.has(due)) broken.push(`entry ${due} is missing from segment ${k}`)
}

/**
 * Returns the ranges of sequences that are neither in the stream nor in the archive. The stream assigns sequences without gaps, so these messages
 * were acknowledged and lost.
 */
function lostSpans(stored: ReadonlyMap<number, StoredMessage>, { segments }: Archived, last: number): { from: number; to: number }[] {
  const archived = new Set(segments.flatMap(({ events }) => events.map(({ sequence }) => sequence)))
  const spans: { from: number; to: number }[] = []
  for (let sequence = 1; sequence <= last; sequence += 1) {
    if (stored.has(sequence) || archived.has(sequence)) continue
    const before = spans.at(-1)
    if (before?.to === sequence - 1) before.to = sequence
    else spans.push({ from: sequence, to: sequence })
  }
  return spans
}

function wrongRecords({ passes }: Judgement, stored: Evidence['passes']): string[] {
  const records = new Map<string, Seen[]>()
  for (const value of stored.values()) {
    const record = decode(value) as Seen
    const key = `${record.key?.originator}/${record.key?.subagent}/${record.key?.id}`
    records.set(key, [...(records.get(key) ?? []), record])
  }
  const wrong = [...passes.values()].flatMap((found) => {
    const [record, another] = records.get(found.key) ?? []
    if (!record) return [`${found.key} has no record`]
    if (another) return [`${found.key} has more than one record`]
    const told = [record.sequences?.return, record.error?.code].join(' ')
    const is = [found.ended?.sequence, found.ended?.code].join(' ')
    return told === is ? [] : [`${found.key}: the record says ${told}, the stream ${is}`]
  })
  return [...wrong, ...[...records.keys()].filter((key) => !passes.has(key)).map((key) => `${key} has a record and is not in the stream`)]
}
