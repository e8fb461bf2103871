import { setTimeout } from 'node:timers/promises'
import { type HealthReport, issueTexts, SYSTEM } from '@passover/schemas'
import type { Registry } from 'prom-client'
import { z } from 'zod'
import { type BusOptions, openBus } from '../connect.js'
import { SettingError } from '../connection/server-address.js'
import { otherIdWindow } from '../topology/id-window.js'
import type { Bus } from '../types/bus.js'
import { BusReadError, BusUnreachable, StreamLost, TopologyError } from '../types/errors.js'
import { MISCONFIGURED } from './entry.js'
import { healthPort, serveHealth } from './health-endpoint.js'

/** A service that runs in a process of its own. */
interface Running extends AsyncDisposable {
  health(): HealthReport
  /** Takes no more, finishes what is under way (for at most `ms`), stops. */
  drain(ms?: number): Promise<void>
  readonly closed: Promise<void>
}

interface ServiceProcess {
  name: string
  bus: Omit<BusOptions, 'identity'>
  log: Record<'info' | 'warn' | 'fatal', (fields: object, text: string) => void>
  env: Record<string, string | undefined>
}

interface Tended<Service extends Running> {
  running: Service
  /** The id window that it began with. */
  id_window_ms: number
  metrics?: () => readonly Registry[]
  /** How long it may finish what is under way once the stream has another id window. */
  other_window_drain_ms?: number
}

const DRAIN_MS = 10_000
/** Of a process that ended so that its supervisor starts it anew. */
const START_ANEW = 1

/**
 * Connects a service's process, and starts the service on the connection. What was opened is closed again where that fails. `opened` takes what else
 * `start` opens.
 */
export async function startService<Service extends Running>(
  service: ServiceProcess,
  start: (bus: Bus, opened: AsyncDisposable[]) => Promise<Tended<Service>>,
): Promise<Service> {
  const { name, log } = service
  const onError = (error: unknown) => log.warn({ err: error }, 'reported by the connection')
  const bus = await openBus({ ...service.bus, identity: SYSTEM, name: `passover ${name}`, onError })
  const opened: AsyncDisposable[] = [bus]
  return closingOnFailure(opened, async () => {
    const tended = await start(bus, opened)
    opened.push(tended.running)
    await tend(service, bus, tended)
    return tended.running
  })
}

/** What a service's process does beside it: tells its health where the environment says so, and ends once the stream has another id window. */
async function tend({ log, env }: ServiceProcess, bus: Bus, tended: Tended<Running>): Promise<void> {
  const { running, id_window_ms, metrics, other_window_drain_ms = DRAIN_MS } = tended
  void otherIdWindow(bus, id_window_ms).then(async (now) => {
    log.fatal({ began_with: id_window_ms, now }, 'the stream has another id window now: this process ends, to be started anew with it')
    await running.drain(other_window_drain_ms)
    process.exit(START_ANEW)
  })
  const port = healthPort(env)
  if (port !== undefined) log.info({ url: (await serveHealth(() => running.health(), port, metrics)).url }, 'health is told')
}

interface ServiceOptions {
  /** Makes hidden characters of a line visible. */
  printable: (text: string) => string
  /** Decides when a line that repeats is written; undefined: leave it out. */
  repeats: { tell(line: string, now: number): number | undefined }
}

/**
 * Runs a service as its process's main. A server that goes away while the service starts is waited for. The process ends with 2 where a setting
 * is wrong, or with 5 where no server can be reached at first, with one line on stderr.
 */
export async function runService(start: () => Promise<Running>, options: ServiceOptions): Promise<void> {
  const say = (text: string) => process.stderr.write(`${options.printable(text)}\n`)
  let isReached = false
  for (;;) {
    try {
      return await runUntilClosed(await start())
    } catch (error) {
      isReached ||= error instanceof BusReadError && error.passing
      if (isReached && isPassing(error)) {
        const line = `the server does not answer while this service starts; waiting for it: ${error.message}`
        if (options.repeats.tell(line, performance.now()) !== undefined) say(line)
        await setTimeout(RETRY_DELAY_MS)
        continue
      }
      const failure = startFailure(error)
      if (!failure) throw error
      say(failure.text)
      process.exit(failure.exit)
    }
  }
}

function isPassing(error: unknown): error is BusReadError | BusUnreachable {
  return (error instanceof BusReadError && error.passing) || (error instanceof BusUnreachable && !error.refused)
}

/** Starts what runs on a connection. What was opened is closed again, last first, where the start fails, so that another attempt finds nothing of it. */
export async function closingOnFailure<T>(opened: AsyncDisposable[], start: () => Promise<T>): Promise<T> {
  try {
    return await start()
  } catch (error) {
    for (const one of opened.reverse()) await one[Symbol.asyncDispose]().then(undefined, () => undefined)
    throw error
  }
}

/** Between two attempts to start. */
const RETRY_DELAY_MS = 500
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
async function runUntilClosed(running: Running): Promise<void> {
  const stop = () => void running.drain(DRAIN_MS).then(() => process.exit(0))
  process.once('SIGTERM', stop)
  process.once('SIGINT', stop)
  await running.closed
}
