import type { PassStatus, QueryStatus } from '@passover/schemas'
import { InvalidArgumentError } from 'commander'
import { duration, parseDuration } from '../terminal/duration.js'

const NAME = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/

/** Parses a whole number within bounds, and refuses anything else (E042). */
export function integerOption(flag: string, least: number, most: number): (text: string) => number {
  return (text) => {
    const value = Number(text)
    if (!/^\d+$/.test(text) || value < least || value > most)
      throw new InvalidArgumentError(`${flag} takes a whole number from ${least} to ${most}.`)
    return value
  }
}

/** Parses a duration with its unit (`30s`, `500ms`, `2m`) to milliseconds. Refuses a number alone, whose unit would be a guess. */
export function durationOption(flag: string, most = Number.POSITIVE_INFINITY): (text: string) => number {
  return (text) => {
    const value = parseDuration(text)
    if (value === undefined || value < 1) throw new InvalidArgumentError(`${flag} takes a duration with a unit: 500ms, 30s, 5m, 1h.`)
    if (value > most) throw new InvalidArgumentError(`${flag} takes at most ${duration(most)}.`)
    return value
  }
}

/** Parses the name of an agent or a person. */
export function nameOption(text: string): string {
  if (!NAME.test(text) || text === 'passover') {
    throw new InvalidArgumentError(
      'A name has 1 to 64 characters of A-Z a-z 0-9 _ - and starts with a letter or digit; "passover" is reserved.',
    )
  }
  return text
}

/** The value of `NOBODY`, which is not imported: the schemas would be loaded for each command's help. */
const NOBODY = 'nobody'

/** Parses the name of an agent that is being registered or given credentials. */
export function newAgentOption(text: string): string {
  if (text === NOBODY)
    throw new InvalidArgumentError(`The name "${NOBODY}" is reserved: Passover answers requests without agent names under it.`)
  return nameOption(text)
}

/** Collects a flag that may be given several times. */
export function repeatableOption(value: string, before: string[] | undefined): string[] {
  return [...(before ?? []), value]
}

const DATE = /^\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?(?:Z|[+-]\d{2}:?\d{2})?)?$/

/** Parses a time to milliseconds: a duration means that long ago, a date is local time unless it has a time zone. */
export function timeOption(flag: string, now: () => number = Date.now): (text: string) => number {
  return (text) => {
    const ago = parseDuration(text)
    if (ago !== undefined) return Math.max(0, now() - ago)
    // A date without a time would be parsed as UTC.
    const date = DATE.test(text) ? Date.parse(text.length === 10 ? `${text}T00:00` : text.replace(' ', 'T')) : Number.NaN
    if (!Number.isFinite(date) || date < 0 || !isInCalendar(text))
      throw new InvalidArgumentError(
        `${flag} takes a duration before now (2h, 30m, 7d) or a date: 2026-11-28, 2026-11-28T14:30, 2026-11-28T14:30:05Z.`,
      )
    return date
  }
}

/** True if the day exists; the parser takes 2026-02-30 for 2 March. */
function isInCalendar(text: string): boolean {
  const day = text.slice(0, 10)
  return new Date(`${day}T00:00Z`).toISOString().startsWith(day)
}

/** Pass states for `--status`. Repeated here because loading the schemas would slow down the start of every command. */
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

/** States and outcomes of a pass. */
export const QUERY_STATUSES: readonly QueryStatus[] = [...PASS_STATUSES, 'completed', 'failed', 'aborted', 'partial']
