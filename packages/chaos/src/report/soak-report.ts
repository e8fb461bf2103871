import { linearTrend, type Sample, type Trend } from './linear-trend.js'

const MEASURES = ['memory MiB', 'descriptors', 'threads', 'timers', 'connections', 'subscriptions', 'consumers', 'messages'] as const
export type Measure = (typeof MEASURES)[number]

/** Samples of one measure in one life of a process or server. */
export interface Series {
  who: string
  pid: number
  measure: Measure
  samples: Sample[]
}

/** Resource usage of everything that ran, and the measures that grow. */
export interface SoakReport {
  samples: number
  minutes: number
  /** Blocks of Markdown for people. */
  lines: string[]
  /** Measures that grow, as `<who> (<pid>) <measure>`. */
  grows: string[]
  trends: Record<string, Trend>
}

/** Minimum rise that counts as growth. The number of messages never counts: it is shown for comparison with the servers' memory. */
const MIN_GROWTH: Record<Measure, number> = {
  'memory MiB': 20,
  descriptors: 10,
  threads: 5,
  timers: 20,
  connections: 5,
  subscriptions: 20,
  consumers: 2,
  messages: Number.POSITIVE_INFINITY,
}
/** Minutes below which a rise may be due to warm-up. */
const MIN_MINUTES = 10
const MINUTE_MS = 60_000

/** Returns the trends, and a table with the longest life of each process and server. */
export function soakReport(series: readonly Series[], samples: number): SoakReport {
  const trends: Record<string, Trend> = {}
  for (const { who, pid, measure, samples: some } of series) {
    const trend = linearTrend(some, MIN_GROWTH[measure])
    if (trend) trends[`${who} (${pid}) ${measure}`] = trend
  }
  const grows = Object.keys(trends).filter((name) => trends[name]?.grows)
  const times = series.flatMap(({ samples: some }) => some.map(({ at }) => at))
  const minutes = times.length === 0 ? 0 : (Math.max(...times) - Math.min(...times)) / MINUTE_MS
  const names = [...new Set(series.map(({ who }) => who))]
  const said = grows.length === 0 ? 'nothing grows.' : `${grows.length} of ${Object.keys(trends).length} measures rise:`
  const line = (name: string) => {
    const { from = 0, to = 0, per_hour = 0, fit = 0 } = trends[name] ?? {}
    return `- ${name}: ${round(from)} → ${round(to)}, ${round(per_hour)} an hour (fit ${fit.toFixed(2)})`
  }
  const lines = [`${names.length} processes and servers watched for ${minutes.toFixed(1)} min: ${said}`]
  if (grows.length > 0) lines.push(grows.map(line).join('\n'))
  if (grows.length > 0 && minutes < MIN_MINUTES) lines.push(`In less than ${MIN_MINUTES} minutes what rises may be warming up.`)
  lines.push(table(names, series), 'For each process, its longest life, first → last. A restarted process counts as a new one.')
  return { samples, minutes, lines, grows, trends }
}

function table(names: readonly string[], series: readonly Series[]): string {
  const rows = names.map((who) => {
    const own = series.filter((one) => one.who === who)
    const pids = [...new Set(own.map(({ pid }) => pid))]
    const length = (pid: number) => Math.max(...own.filter((one) => one.pid === pid).map(({ samples }) => samples.length))
    const [longest = 0] = pids.sort((a, b) => length(b) - length(a))
    const cells = MEASURES.map((measure) => {
      const found = own.find((one) => one.pid === longest && one.measure === measure)?.samples
      return found ? `${round(found[0]?.value ?? 0)} → ${round(found.at(-1)?.value ?? 0)}` : ''
    })
    return [who, String(pids.length), ...cells]
  })
  const text = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  const head = ['who', 'lives', ...MEASURES]
  return [text(head), text(head.map(() => '---')), ...rows.map(text)].join('\n')
}

function round(value: number): string {
  return Math.abs(value) < 10 && !Number.isInteger(value) ? value.toFixed(1) : String(Math.round(value))
}
