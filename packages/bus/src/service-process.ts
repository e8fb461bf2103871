import type { HealthReport } from '@passover/schemas'
import type { Registry } from 'prom-client'
import type { Bus } from './bus.js'
import { healthPort, serveHealth } from './health-endpoint.js'
import { otherIdWindow } from './id-window.js'

/** A service that runs in a process of its own. */
interface Running {
  health(): HealthReport
  /** Takes no more, finishes what is under way (for at most `ms`), stops. */
  drain(ms?: number): Promise<void>
  readonly closed: Promise<void>
}

interface Tended {
  running: Running
  bus: Pick<Bus, 'idWindow' | 'closed'>
  log: { info(fields: object, text: string): void; fatal(fields: object, text: string): void }
  env: Record<string, string | undefined>
  /** The id window that it began with. */
  id_window_ms: number
  metrics?: () => readonly Registry[]
  /** How long it may finish what is under way once the stream has another id window. */
  other_window_drain_ms?: number
}

const DRAIN_MS = 10_000
/** Of a process that ended so that its supervisor starts it anew. */
const START_ANEW = 1

/** What a service's process does beside it: tells its health where the environment says so, and ends once the stream has another id window. */
export async function tendService(tended: Tended): Promise<void> {
  const { running, bus, log, env, id_window_ms, metrics, other_window_drain_ms = DRAIN_MS } = tended
  void otherIdWindow(bus, id_window_ms).then(async (now) => {
    log.fatal({ began_with: id_window_ms, now }, 'the stream has another id window now: this process ends, to be started anew with it')
    await running.drain(other_window_drain_ms)
    process.exit(START_ANEW)
  })
  const port = healthPort(env)
  if (port !== undefined) log.info({ url: (await serveHealth(() => running.health(), port, metrics)).url }, 'health is told')
}

/** The rest of a service's main: at the first SIGTERM or SIGINT it finishes what is under way, and the process ends. */
export async function runToItsEnd(running: Running): Promise<void> {
  const stop = () => void running.drain(DRAIN_MS).then(() => process.exit(0))
  process.once('SIGTERM', stop)
  process.once('SIGINT', stop)
  await running.closed
}
