export { ago, dateTime, duration } from '@passover/sdk/internal/format'

const UNITS: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** Parses `500ms`, `30s`, `1.5m`, `2h`, `1d` to milliseconds, or returns `undefined`. A number without a unit is not a duration. */
export function parseDuration(text: string): number | undefined {
  const found = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(text.trim())
  const unit = UNITS[found?.[2] ?? '']
  if (!found?.[1] || !unit) return undefined
  return Math.round(Number(found[1]) * unit)
}

/** Formats a time (ms) as local clock time with milliseconds. */
export function clockTime(time: number): string {
  const date = new Date(time)
  const two = (n: number) => String(n).padStart(2, '0')
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${String(date.getMilliseconds()).padStart(3, '0')}`
}
