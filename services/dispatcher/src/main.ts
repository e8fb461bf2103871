#!/usr/bin/env node
import { pathToFileURL } from 'node:url'
import {
  DEFAULT_ID_WINDOW_MS,
  nodeRandom,
  openBus,
  processMetrics,
  readTextFile,
  runService,
  serverClock,
  tendService,
} from '@passover/bus'
import { PRINTABLE_LOG, visibleLines } from '@passover/core'
import { SYSTEM } from '@passover/schemas'
import { openTracing } from '@passover/tracing'
import { pino } from 'pino'
import { type Running, startDispatcher } from './dispatcher.js'
import { readEnvironment } from './environment.js'
import type { Faults } from './faults.js'
import { dispatcherMetrics } from './metrics.js'
import { dispatcherOptions } from './options.js'

/**
 * A dispatcher process: connects as its environment says (see environment.ts), makes the topology, starts.
 * `faults` is for tests that end a process between two of its steps.
 */
export async function runDispatcher(env: Record<string, string | undefined>, faults?: Faults): Promise<Running> {
  const told = readEnvironment(env, readTextFile)
  const log = pino(
    { ...PRINTABLE_LOG, name: 'dispatcher', level: told.log_level, redact: ['*.data', '*.password', '*.token', '*.credentials'] },
    pino.destination(2),
  )
  dispatcherOptions.parse(told.settings)
  const bus = await openBus({ ...told.bus, identity: SYSTEM, name: 'passover dispatcher' })
  await bus.ensureTopology({ id_window_ms: told.settings.id_window_ms, ...told.topology })
  const tracing = await openTracing({ env, service: 'passover-dispatcher', say: (line) => log.warn(line) })
  const deps = { bus, clock: serverClock(bus), random: nodeRandom, log, tracing, ...(faults && { faults }) }
  const id_window_ms = bus.idWindow ?? DEFAULT_ID_WINDOW_MS
  const running = await startDispatcher(deps, { ...told.settings, id_window_ms })
  const metrics = () => [dispatcherMetrics(running.stats()), processMetrics()]
  await tendService({ running, bus, log, env, id_window_ms, metrics })
  return running
}

async function main(): Promise<void> {
  await runService(() => runDispatcher(process.env), visibleLines)
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) await main()
