import { type Bus, metricsText, processMetrics } from '@passover/bus'
import { askAgents } from '@passover/operator'
import { Counter, Gauge, Histogram, Registry } from 'prom-client'

const DURATION_BUCKETS_S = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]
const CACHE_MS = 2_000

/** Prometheus metrics of the gateway and its process, of the stream, and of every agent. Values that cannot be read at the moment are omitted. */
export class Metrics {
  readonly #bus: Bus
  readonly #own: () => { feeds: number; identities: number }
  readonly #registry = new Registry()
  readonly #requests: Counter
  readonly #seconds: Histogram
  readonly #open: Gauge
  readonly #stream: Gauge
  readonly #parts: Gauge
  #read_at = Number.NEGATIVE_INFINITY

  constructor(bus: Bus, own: () => { feeds: number; identities: number }) {
    this.#bus = bus
    this.#own = own
    const registers = [this.#registry]
    const labelNames = ['operation', 'status']
    this.#requests = new Counter({ name: 'passover_http_requests_total', help: 'Answered requests', labelNames, registers })
    const name = 'passover_http_request_duration_seconds'
    this.#seconds = new Histogram({
      name,
      help: 'Time until the response starts',
      labelNames: ['operation'],
      buckets: DURATION_BUCKETS_S,
      registers,
    })
    const passes = 'Open passes of an agent: running, waiting, and originated'
    this.#open = new Gauge({ name: 'passover_passes_open', help: passes, labelNames: ['agent', 'as'], registers })
    this.#stream = new Gauge({ name: 'passover_stream', help: 'Messages and bytes of the stream', labelNames: ['what'], registers })
    this.#parts = new Gauge({ name: 'passover_gateway', help: 'Open feeds, and connections in use', labelNames: ['what'], registers })
  }

  answered(operation: string, status: number, ms: number): void {
    this.#requests.inc({ operation, status: String(status) })
    this.#seconds.observe({ operation }, ms / 1_000)
  }

  async text(): Promise<{ text: string; type: string }> {
    const { feeds, identities } = this.#own()
    this.#parts.set({ what: 'feeds' }, feeds)
    this.#parts.set({ what: 'identities' }, identities)
    if (performance.now() - this.#read_at > CACHE_MS) {
      this.#read_at = performance.now()
      await Promise.allSettled([this.#readAgents(), this.#readStream()])
    }
    return await metricsText([this.#registry, processMetrics()])
  }

  async #readAgents(): Promise<void> {
    const agents = await askAgents(this.#bus)
    this.#open.reset()
    for (const { agent, open, waiting, originated } of agents) {
      this.#open.set({ agent: agent.name, as: 'works' }, open)
      this.#open.set({ agent: agent.name, as: 'waits' }, waiting)
      this.#open.set({ agent: agent.name, as: 'asked' }, originated)
    }
  }

  async #readStream(): Promise<void> {
    const { messages, bytes } = await this.#bus.usage()
    this.#stream.set({ what: 'messages' }, messages)
    this.#stream.set({ what: 'bytes' }, bytes)
  }
}
