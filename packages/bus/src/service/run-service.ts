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
  /** Stops taking work, completes what is in progress (for at most `ms`), and closes. */
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
  /** Id window with which the service started. */
  id_window_ms: number
  metrics?: () => readonly Registry[]
  /** Milliseconds to complete work in progress after the stream's id window has changed. */
  other_window_drain_ms?: number
}

const DRAIN_MS = 10_000
/** Exit code after which the supervisor should restart the process. */
const START_ANEW = 1

/**
 * Connects the process of a service and starts the service. Closes everything again if that fails: the connection, and what `start` adds to `opened`.
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

/** Serves the health endpoint if it is configured, and exits once the stream's id window differs from the service's. */
async function tend({ log, env }: ServiceProcess, bus: Bus, tended: Tended<Running>): Promise<void> {
  const { running, id_window_ms, metrics, other_window_drain_ms = DRAIN_MS } = tended
  void otherIdWindow(bus, id_window_ms).then(async (now) => {
    log.fatal({ began_with: id_window_ms, now }, 'the id window of the stream was changed; exiting, so that a restart uses the new one')
    await running.drain(other_window_drain_ms)
    process.exit(START_ANEW)
  })
  const port = healthPort(env)
  if (port !== undefined) log.info({ url: (await serveHealth(() => running.health(), port, metrics)).url }, 'health endpoint started')
}

interface ServiceOptions {
  /** Makes hidden characters of a line visible. */
  printable: (text: string) => string
  /** Decides when a repeated line is written; `undefined` to skip it. */
  repeats: { tell(line: string, now: number): number | undefined }
}

/**
 * Runs a service as the main function of its process. If the server disappears during startup, waits for it. On failure prints one line to stderr and
 * exits: with code 2 for an invalid setting, with 5 if no server can be reached at first.
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
        const line = `the server does not answer while this service starts; retrying: ${error.message}`
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

/** Calls `start` and, if it fails, closes everything in `opened`, last first, so that a retry finds nothing left over. */
export async function closingOnFailure<T>(opened: AsyncDisposable[], start: () => Promise<T>): Promise<T> {
  try {
    return await start()
  } catch (error) {
    for (const one of opened.reverse()) await one[Symbol.asyncDispose]().then(undefined, () => undefined)
    throw error
  }
}

/** Milliseconds between two attempts to start. */
const RETRY_DELAY_MS = 500
/** Exit code of E040. */
const UNREACHABLE = 5

function startFailure(error: unknown): { text: string; exit: number } | undefined {
  // Its message contains the hint.
  if (error instanceof TopologyError) return { text: error.message, exit: MISCONFIGURED }
  if (error instanceof SettingError) return { text: `${error.message}. ${error.hint}`, exit: MISCONFIGURED }
  if (error instanceof z.ZodError)
    return { text: `a setting is wrong: ${issueTexts(error.issues, 5, 'settings').join('; ')}`, exit: MISCONFIGURED }
  if (error instanceof BusUnreachable || error instanceof StreamLost) return { text: `${error.message}. ${error.hint}`, exit: UNREACHABLE }
  return undefined
}

/** Waits until the service closes. On the first SIGTERM or SIGINT it drains the service and exits. */
async function runUntilClosed(running: Running): Promise<void> {
  const stop = () => void running.drain(DRAIN_MS).then(() => process.exit(0))
  process.once('SIGTERM', stop)
  process.once('SIGINT', stop)
  await running.closed
}
