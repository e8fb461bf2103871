import { type HealthReport, issueTexts } from '@passover/schemas'
import type { Registry } from 'prom-client'
import { z } from 'zod'
import type { Bus } from './bus.js'
import { BusUnreachable, StreamLost, TopologyError } from './errors.js'
import { healthPort, serveHealth } from './health-endpoint.js'
import { otherIdWindow } from './id-window.js'
import { SettingError } from './server-address.js'

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

/**
 * Runs a service as its process's main: starts it, and ends the process with 2 where a setting is wrong or 5 where no server can be reached, in
 * one line. `printable` makes hidden characters of that line visible.
 */
export async function runService(start: () => Promise<Running>, printable: (text: string) => string): Promise<void> {
  const running = await start().catch((error: unknown) => {
    const failure = startFailure(error)
    if (!failure) throw error
    process.stderr.write(`${printable(failure.text)}\n`)
    process.exit(failure.exit)
  })
  await runToItsEnd(running)
}

/** Exit code of E030. */
const MISCONFIGURED = 2
/** Exit code of E040. */
const UNREACHABLE = 5

function startFailure(error: unknown): { text: string; exit: number } | undefined {
  // Its message has its hint.
  if (error instanceof TopologyError) return { text: error.message, exit: MISCONFIGURED }
  if (error instanceof SettingError) return { text: `${error.message}. ${error.hint}`, exit: MISCONFIGURED }
  if (error instanceof z.ZodError)
    return { text: `a setting is wrong: ${issueTexts(error.issues, 5, 'settings').join('; ')}`, exit: MISCONFIGURED }
  if (error instanceof BusUnreachable || error instanceof StreamLost) return { text: `${error.message}. ${error.hint}`, exit: UNREACHABLE }
  return undefined
}

/** At the first SIGTERM or SIGINT it finishes what is under way, and the process ends. */
async function runToItsEnd(running: Running): Promise<void> {
  const stop = () => void running.drain(DRAIN_MS).then(() => process.exit(0))
  process.once('SIGTERM', stop)
  process.once('SIGINT', stop)
  await running.closed
}
