const HOUR_MS = 3_600_000
const DAY_MS = 86_400_000

/** A time (ms) that an entry claims: it may be anything. */
export function day(time: number): string {
  return Number.isFinite(time) && Math.abs(time) < 8.64e15 ? new Date(time).toISOString() : String(time)
}

/** Rounded down: what is a moment short of thirty days is not thirty days old. */
export function days(ms: number): string {
  const [unit, name] = ms < DAY_MS ? [HOUR_MS, 'hours'] : [DAY_MS, 'days']
  return `${Math.max(0, Math.floor((ms / unit) * 100) / 100)} ${name}`
}
