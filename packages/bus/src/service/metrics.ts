import { Counter, Gauge, Registry } from 'prom-client'

/** Description of a metric. Its labels must have few distinct values. */
export interface MetricAbout {
  name: string
  help: string
  labels?: readonly string[]
}

/** One value, or several with different labels. */
export type Reading = number | readonly { labels: Readonly<Record<string, string>>; value: number }[]

/** Adds a counter with its present value. */
export function counter(registry: Registry, { name, help, labels = [] }: MetricAbout, reading: Reading): void {
  const made = new Counter({ name, help, labelNames: [...labels], registers: [registry] })
  if (typeof reading === 'number') made.inc(reading)
  else for (const one of reading) made.inc({ ...one.labels }, one.value)
}

/** Adds a gauge with its present value. */
export function gauge(registry: Registry, { name, help, labels = [] }: MetricAbout, reading: Reading): void {
  const made = new Gauge({ name, help, labelNames: [...labels], registers: [registry] })
  if (typeof reading === 'number') made.set(reading)
  else for (const one of reading) made.set({ ...one.labels }, one.value)
}

/** Returns metrics of this process, under the standard names of Prometheus clients. */
export function processMetrics(): Registry {
  const registry = new Registry()
  const { user, system } = process.cpuUsage()
  const started = Math.round(Date.now() / 1_000 - process.uptime())
  gauge(registry, { name: 'process_resident_memory_bytes', help: 'Resident memory' }, process.memoryUsage.rss())
  counter(registry, { name: 'process_cpu_seconds_total', help: 'Processor time used' }, (user + system) / 1e6)
  gauge(registry, { name: 'process_start_time_seconds', help: 'Start time in seconds since 1970' }, started)
  return registry
}

/** Returns all metrics in Prometheus's text format, with its media type. */
export async function metricsText(registries: readonly Registry[]): Promise<{ type: string; text: string }> {
  const all = Registry.merge([...registries])
  return { type: all.contentType, text: await all.metrics() }
}
