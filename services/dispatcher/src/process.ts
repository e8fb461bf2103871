import { DEFAULT_ID_WINDOW_MS, nodeRandom, processMetrics, readTextFile, runService, serverClock, startService } from '@passover/bus'
import { logOptions, Repeats, visibleLines } from '@passover/core'
import { openTracing } from '@passover/tracing'
import { pino } from 'pino'
import { type Running, startDispatcher } from './dispatcher.js'
import { readEnvironment } from './environment.js'
import { dispatcherMetrics } from './metrics.js'
import type { Faults } from './runtime/fault-points.js'
import { dispatcherOptions } from './runtime/options.js'

/**
 * Starts a dispatcher process: connects as configured by the environment (see environment.ts), ensures the topology, and starts the dispatcher.
 * `faults` is for tests that end a process between two of its steps.
 */
export async function runDispatcher(env: Record<string, string | undefined>, faults?: Faults): Promise<Running> {
  const config = readEnvironment(env, readTextFile)
  const log = pino(
    { ...logOptions(), name: 'dispatcher', level: config.log_level, redact: ['*.data', '*.password', '*.token', '*.credentials'] },
    pino.destination(2),
  )
  dispatcherOptions.parse(config.settings)
  return startService({ name: 'dispatcher', bus: config.bus, log, env }, async (bus, opened) => {
    await bus.ensureTopology({ id_window_ms: config.settings.id_window_ms, ...config.topology })
    const tracing = await openTracing({ env, service: 'passover-dispatcher', say: (line) => log.warn(line) })
    opened.push(tracing)
    const deps = { bus, clock: serverClock(bus), random: nodeRandom, log, tracing, ...(faults && { faults }) }
    const id_window_ms = bus.idWindow ?? DEFAULT_ID_WINDOW_MS
    const running = await startDispatcher(deps, { ...config.settings, id_window_ms })
    const metrics = () => [dispatcherMetrics(running.stats()), processMetrics()]
    return { running, id_window_ms, metrics }
  })
}

/** Runs the process until it receives a stop signal. */
export async function main(): Promise<void> {
  await runService(() => runDispatcher(process.env), { printable: visibleLines, repeats: new Repeats() })
}
