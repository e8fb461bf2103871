import { readdir, readFile } from 'node:fs/promises'
import type { Topology } from '../cluster/topology.js'
import type { Sample } from '../report/linear-trend.js'
import { type Measure, type Series, type SoakReport, soakReport } from '../report/soak-report.js'
import { pause } from '../wait-for.js'

const SAMPLE_INTERVAL_MS = 5_000

type Life = Pick<Series, 'who' | 'pid'>

/** Samples the resource usage of every process and server. A restarted process is a different one, so each life has a series of its own. */
export class Soak {
  readonly #topology: Topology
  readonly #series: Series[] = []
  #samples = 0

  constructor(topology: Topology) {
    this.#topology = topology
  }

  async watch(over: AbortSignal): Promise<void> {
    while (!over.aborted) {
      await this.#sample()
      await pause(SAMPLE_INTERVAL_MS, over)
    }
  }

  async #sample(): Promise<void> {
    this.#samples += 1
    const at = Date.now()
    for (const { name, pid, frozen, resources } of this.#topology.actors.values()) {
      if (frozen) continue
      const life = { who: name, pid }
      await this.#process(life, at)
      if (resources) this.#add(life, 'timers', { at, value: resources.timers })
    }
    for (const node of this.#topology.cluster.nodes) {
      const { name, pid } = node
      if (pid === undefined) continue
      const life = { who: `server ${name}`, pid }
      await this.#process(life, at)
      const seen = await node.ask<{ connections?: number; subscriptions?: number }>('/varz')
      const streams = await node.ask<{ consumers?: number; messages?: number }>('/jsz')
      if (seen) this.#add(life, 'connections', { at, value: seen.connections ?? 0 })
      if (seen) this.#add(life, 'subscriptions', { at, value: seen.subscriptions ?? 0 })
      if (streams) this.#add(life, 'consumers', { at, value: streams.consumers ?? 0 })
      if (streams) this.#add(life, 'messages', { at, value: streams.messages ?? 0 })
    }
  }

  async #process(life: Life, at: number): Promise<void> {
    const status = await readFile(`/proc/${life.pid}/status`, 'utf8').catch(() => undefined)
    const open = await readdir(`/proc/${life.pid}/fd`).catch(() => undefined)
    const kib = Number(/^VmRSS:\s+(\d+) kB/m.exec(status ?? '')?.[1] ?? Number.NaN)
    const threads = Number(/^Threads:\s+(\d+)/m.exec(status ?? '')?.[1] ?? Number.NaN)
    if (!Number.isNaN(kib)) this.#add(life, 'memory MiB', { at, value: kib / 1_024 })
    if (!Number.isNaN(threads)) this.#add(life, 'threads', { at, value: threads })
    if (open) this.#add(life, 'descriptors', { at, value: open.length })
  }

  #add(life: Life, measure: Measure, sample: Sample): void {
    const known = this.#series.find((one) => one.who === life.who && one.pid === life.pid && one.measure === measure)
    if (known) known.samples.push(sample)
    else this.#series.push({ ...life, measure, samples: [sample] })
  }

  report(): SoakReport {
    return soakReport(this.#series, this.#samples)
  }
}
