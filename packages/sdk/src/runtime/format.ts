/** Formats numbers, times and names for people. This module knows nothing about passes. */

/** Formats a count with its noun: `1 file`, `2 files`, `1 match`, `2 matches`. */
export function count(n: number, noun: string, plural = `${noun}s`): string {
  return `${n} ${n === 1 ? noun : plural}`
}

/** Formats a duration in milliseconds: `12 ms`, `1.4 s`, `3 min`, `2 h`, `5 d`. */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`
  if (ms < 3_600_000) return `${Math.round(ms / 60_000)} min`
  if (ms < 172_800_000) return `${Math.round(ms / 3_600_000)} h`
  return `${Math.round(ms / 86_400_000)} d`
}

/** Formats a size in bytes: `812 bytes`, `2 KiB`, `3.5 MiB`. */
export function sizeText(bytes: number): string {
  const tenth = (value: number) => String(Math.round(value * 10) / 10)
  if (bytes < 1024) return count(bytes, 'byte')
  return bytes < 1024 ** 2 ? `${tenth(bytes / 1024)} KiB` : `${tenth(bytes / 1024 ** 2)} MiB`
}

/** Formats a time (ms since 1970) as local date and time. */
export function dateTime(time: number): string {
  const date = new Date(time)
  const two = (n: number) => String(n).padStart(2, '0')
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`
}

/**
 * Returns marks to append to a name that show its reliability: ` (self, local; unverified)`. Empty for another person whose name the server verified.
 */
export function nameMarks({ self, unverified }: { self?: 'local' | undefined; unverified?: true | undefined }): string {
  const marks = [...(self ? ['self, local'] : []), ...(unverified ? ['unverified'] : [])]
  return marks.length === 0 ? '' : ` (${marks.join('; ')})`
}

/** Formats the time since `time` for a column: `now`, `12 s ago`, `3 min ago`. */
export function ago(time: number, now: number): string {
  const ms = now - time
  if (ms < 1000) return 'now'
  if (ms < 60_000) return `${Math.floor(ms / 1000)} s ago`
  return `${duration(ms)} ago`
}
