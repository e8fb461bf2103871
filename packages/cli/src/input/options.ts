import type { PassStatus, QueryStatus } from '@passover/schemas'
import { InvalidArgumentError } from 'commander'
import { duration, parseDuration } from '../terminal/duration.js'

const NAME = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/

/** Parses a whole number within bounds; anything else is E042. */
export function integerOption(flag: string, least: number, most: number): (text: string) => number {
  return (text) => {
    const value = Number(text)
    if (!/^\d+$/.test(text) || value < least || value > most)
      throw new InvalidArgumentError(`${flag} takes a whole number from ${least} to ${most}.`)
    return value
  }
}

/** Parses `30s`, `500ms`, `2m`; a number alone is refused, since its unit would be a guess. */
export function durationOption(flag: string, most = Number.POSITIVE_INFINITY): (text: string) => number {
  return (text) => {
    const value = parseDuration(text)
    if (value === undefined || value < 1) throw new InvalidArgumentError(`${flag} takes a time with its unit: 500ms, 30s, 5m, 1h.`)
    if (value > most) throw new InvalidArgumentError(`${flag} takes at most ${duration(most)}.`)
    return value
  }
}

/** An agent's or a person's name. */
export function nameOption(text: string): string {
  if (!NAME.test(text) || text === 'passover') {
    throw new InvalidArgumentError('A name has 1 to 64 of A-Z a-z 0-9 _ - and starts with a letter or digit; "passover" is reserved.')
  }
  return text
}

/** Collects a flag that may be given several times. */
export function repeatableOption(value: string, before: string[] | undefined): string[] {
  return [...(before ?? []), value]
}

const DATE = /^\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?(?:Z|[+-]\d{2}:?\d{2})?)?$/

/** A moment, ms: a time with its unit is so long ago; a date is taken as local, unless it says otherwise. */
export function timeOption(flag: string, now: () => number = Date.now): (text: string) => number {
  return (text) => {
    const ago = parseDuration(text)
    if (ago !== undefined) return Math.max(0, now() - ago)
    // A date alone would be read as UTC.
    const date = DATE.test(text) ? Date.parse(text.length === 10 ? `${text}T00:00` : text.replace(' ', 'T')) : Number.NaN
    if (!Number.isFinite(date) || date < 0 || !isInCalendar(text))
      throw new InvalidArgumentError(
        `${flag} takes how long ago (2h, 30m, 7d), or a date: 2026-11-28, 2026-11-28T14:30, 2026-11-28T14:30:05Z.`,
      )
    return date
  }
}

/** Whether the day exists: the parser takes 2026-02-30 for 2 March. */
function isInCalendar(text: string): boolean {
  const day = text.slice(0, 10)
  return new Date(`${day}T00:00Z`).toISOString().startsWith(day)
}

/** Where a pass stands, for `--status`: written here, since the schemas are too much to load for a list of commands. */
export const PASS_STATUSES: readonly PassStatus[] = [
  'requested',
  'held',
  'waiting_for_return',
  'returned',
  'awaiting_release',
  'expired',
  'processed',
  'refused',
  'timed_out',
  'cancelled',
]

/** And how it ended. */
export const QUERY_STATUSES: readonly QueryStatus[] = [...PASS_STATUSES, 'completed', 'failed', 'aborted', 'partial']
