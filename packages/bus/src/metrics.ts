/** A number, or several told apart by labels. Whoever makes one sees to it that the labels have few values. */
export interface MetricFamily {
  name: string
  help: string
  type: 'counter' | 'gauge' | 'histogram'
  samples: readonly MetricSample[]
}

export interface MetricSample {
  /** After the family's name: `_bucket`, `_sum`, `_count` of a histogram. */
  suffix?: string
  labels?: Readonly<Record<string, string>>
  value: number
}

/** What PASSOVER_HEALTH_PORT answers at `/metrics`: Prometheus's text format, version 0.0.4. */
export function metricsText(families: readonly MetricFamily[]): string {
  return families.map(familyText).join('')
}

export function counter(name: string, help: string, samples: number | readonly MetricSample[]): MetricFamily {
  return { name, help, type: 'counter', samples: samplesOf(samples) }
}

export function gauge(name: string, help: string, samples: number | readonly MetricSample[]): MetricFamily {
  return { name, help, type: 'gauge', samples: samplesOf(samples) }
}

/** Of this process, under the names that Prometheus's own clients use. */
export function processMetrics(): MetricFamily[] {
  const { user, system } = process.cpuUsage()
  return [
    gauge('process_resident_memory_bytes', 'Resident memory', process.memoryUsage.rss()),
    counter('process_cpu_seconds_total', 'Processor time used', (user + system) / 1e6),
    gauge('process_start_time_seconds', 'When it started, seconds since 1970', Math.round(Date.now() / 1_000 - process.uptime())),
  ]
}

/** How long things took, by upper bounds in seconds. */
export class Distribution {
  readonly #bounds: readonly number[]
  readonly #counts: number[]
  #sum = 0
  #count = 0

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds
    this.#counts = bounds.map(() => 0)
  }

  observe(seconds: number): void {
    this.#sum += seconds
    this.#count += 1
    const at = this.#bounds.findIndex((bound) => seconds <= bound)
    if (at >= 0) this.#counts[at] = (this.#counts[at] ?? 0) + 1
  }

  family(name: string, help: string): MetricFamily {
    let below = 0
    const buckets = this.#bounds.map((bound, at) => {
      below += this.#counts[at] ?? 0
      return { suffix: '_bucket', labels: { le: String(bound) }, value: below }
    })
    const all = { suffix: '_bucket', labels: { le: '+Inf' }, value: this.#count }
    const samples = [...buckets, all, { suffix: '_sum', value: this.#sum }, { suffix: '_count', value: this.#count }]
    return { name, help, type: 'histogram', samples }
  }
}

function samplesOf(samples: number | readonly MetricSample[]): readonly MetricSample[] {
  return typeof samples === 'number' ? [{ value: samples }] : samples
}

function familyText({ name, help, type, samples }: MetricFamily): string {
  const head = `# HELP ${name} ${help.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')}\n# TYPE ${name} ${type}\n`
  return head + samples.map(({ suffix = '', labels, value }) => `${name}${suffix}${labelsText(labels)} ${value}\n`).join('')
}

function labelsText(labels: MetricSample['labels']): string {
  const pairs = Object.entries(labels ?? {}).map(([name, value]) => `${name}="${escaped(value)}"`)
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`
}

function escaped(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
}
