import { InvalidArgumentError } from 'commander'
import { parseDuration } from '../duration.js'

const DATE = /^\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?(?:Z|[+-]\d{2}:?\d{2})?)?$/

/** A moment, ms: a time with its unit is so long ago; a date is taken as local, unless it says otherwise. */
export function parseTime(flag: string, now: () => number = Date.now): (text: string) => number {
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
