import { readdir, readFile } from 'node:fs/promises'
import type { Arena } from './arena.js'
import { type Sample, type Trend, trendOf } from './trend.js'
import { pause } from './wait.js'

/** What was watched of everything that ran, and which of it grows. */
export interface SoakReport {
  samples: number
  /** For people, a line each. */
  lines: string[]
  /** `<who> <measure>`. */
  grows: string[]
  trends: Record<string, Trend>
}

const EVERY_MS = 5_000
/** Least rise that counts, by measure. */
const LEAST: Record<string, number> = {
  'memory MiB': 20,
  descriptors: 10,
  threads: 5,
  timers: 20,
  consumers: 2,
  subscriptions: 20,
  connections: 5,
}

/** Watches every process and server. A process that was killed is another one: each life is a series of its own. */
export class Soak {
  readonly #arena: Arena
  readonly #series = new Map<string, Sample[]>()
  #samples = 0

  constructor(arena: Arena) {
    this.#arena = arena
  }

  async watch(over: AbortSignal): Promise<void> {
    while (!over.aborted) {
      await this.#sample()
      await pause(EVERY_MS, over)
    }
  }

  async #sample(): Promise<void> {
    this.#samples += 1
    const at = Date.now()
    for (const { name, pid, frozen, resources } of this.#arena.actors.values()) {
      if (frozen) continue
      await this.#process(`${name} (${pid})`, pid, at)
      if (resources) this.#add(`${name} (${pid})`, 'timers', { at, value: resources.timers })
    }
    for (const node of this.#arena.cluster.nodes) {
      if (node.pid === undefined) continue
      await this.#process(`server ${node.name} (${node.pid})`, node.pid, at)
      const seen = await node.ask<{ connections?: number; subscriptions?: number }>('/varz')
      const streams = await node.ask<{ consumers?: number }>('/jsz')
      if (seen) this.#add(`server ${node.name} (${node.pid})`, 'connections', { at, value: seen.connections ?? 0 })
      if (seen) this.#add(`server ${node.name} (${node.pid})`, 'subscriptions', { at, value: seen.subscriptions ?? 0 })
      if (streams) this.#add(`server ${node.name} (${node.pid})`, 'consumers', { at, value: streams.consumers ?? 0 })
    }
  }

  async #process(who: string, pid: number, at: number): Promise<void> {
    const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => undefined)
    const open = await readdir(`/proc/${pid}/fd`).catch(() => undefined)
    const kib = Number(/^VmRSS:\s+(\d+) kB/m.exec(status ?? '')?.[1] ?? Number.NaN)
    const threads = Number(/^Threads:\s+(\d+)/m.exec(status ?? '')?.[1] ?? Number.NaN)
    if (!Number.isNaN(kib)) this.#add(who, 'memory MiB', { at, value: kib / 1_024 })
    if (!Number.isNaN(threads)) this.#add(who, 'threads', { at, value: threads })
    if (open) this.#add(who, 'descriptors', { at, value: open.length })
  }

  #add(who: string, measure: string, sample: Sample): void {
    const name = `${who} ${measure}`
    const known = this.#series.get(name)
    if (known) known.push(sample)
    else this.#series.set(name, [sample])
  }

  report(): SoakReport {
    const trends: Record<string, Trend> = {}
    for (const [name, samples] of this.#series) {
      const measure = Object.keys(LEAST).find((one) => name.endsWith(one)) ?? ''
      const trend = trendOf(samples, LEAST[measure] ?? 0)
      if (trend) trends[name] = trend
    }
    const grows = Object.keys(trends).filter((name) => trends[name]?.grows)
    const line = (name: string) => {
      const { from = 0, to = 0, per_hour = 0, fit = 0 } = trends[name] ?? {}
      return `- ${name}: ${round(from)} → ${round(to)}, ${round(per_hour)} an hour (fit ${fit.toFixed(2)})`
    }
    const said = grows.length > 0 ? ['These grow:', ...grows.map(line)] : ['Nothing that was watched grows.']
    const memory = Object.keys(trends).filter((name) => name.endsWith('memory MiB') && !grows.includes(name))
    return { samples: this.#samples, lines: [...said, '', 'Memory of the others:', ...memory.map(line)], grows, trends }
  }
}

function round(value: number): string {
  return Math.abs(value) < 10 ? value.toFixed(1) : String(Math.round(value))
}
