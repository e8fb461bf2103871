const UNITS: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** `500ms`, `30s`, `1.5m`, `2h`, `1d` in ms; undefined when it is none. A bare number is none: its unit would be a guess. */
export function parseDuration(text: string): number | undefined {
  const found = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(text.trim())
  const unit = UNITS[found?.[2] ?? '']
  if (!found?.[1] || !unit) return undefined
  return Math.round(Number(found[1]) * unit)
}

/** ms as people read it: `12 ms`, `1.4 s`, `3 min`, `2 h`, `5 d`. */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`
  if (ms < 3_600_000) return `${Math.round(ms / 60_000)} min`
  if (ms < 172_800_000) return `${Math.round(ms / 3_600_000)} h`
  return `${Math.round(ms / 86_400_000)} d`
}

/** A time (ms) as local clock time with milliseconds. */
export function clock(time: number): string {
  const date = new Date(time)
  const two = (n: number) => String(n).padStart(2, '0')
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${String(date.getMilliseconds()).padStart(3, '0')}`
}

/** A time (ms) as local date and clock time. */
export function dateTime(time: number): string {
  const date = new Date(time)
  const two = (n: number) => String(n).padStart(2, '0')
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`
}

/** How long ago, for a column: `now`, `12 s ago`, `3 min ago`. */
export function ago(time: number, now: number): string {
  const ms = now - time
  if (ms < 1000) return 'now'
  if (ms < 60_000) return `${Math.floor(ms / 1000)} s ago`
  return `${duration(ms)} ago`
}
