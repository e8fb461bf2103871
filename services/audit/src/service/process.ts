import { setPriority } from 'node:os'
import { DEFAULT_ID_WINDOW_MS, nodeRandom, processMetrics, readTextFile, runService, serverClock, startService } from '@passover/bus'
import { logOptions, Repeats, visibleLines } from '@passover/core'
import { outputSchemas } from '@passover/validation'
import { pino } from 'pino'
import { readEnvironment } from './environment.js'
import { auditOptions } from './options.js'
import type { AuditRunning } from './running-audit.js'
import { startAudit } from './supervisor.js'

/** Runs an audit process: connects as configured by the environment (see environment.ts), creates the topology and starts the audit. */
export async function runAudit(env: Record<string, string | undefined>): Promise<AuditRunning> {
  const told = readEnvironment(env, readTextFile)
  const log = pino(
    { ...logOptions(), name: 'audit', level: told.log_level, redact: ['*.data', '*.password', '*.token', '*.credentials'] },
    pino.destination(2),
  )
  auditOptions.parse(told.settings)
  return startService({ name: 'audit', bus: told.bus, log, env }, async (bus) => {
    await bus.ensureTopology({ id_window_ms: told.settings.id_window_ms, silent_stream: 'refuse', ...told.topology })
    const id_window_ms = bus.idWindow ?? DEFAULT_ID_WINDOW_MS
    const settings = { ...told.settings, id_window_ms }
    const running = await startAudit({ bus, clock: serverClock(bus), random: nodeRandom, log, schemas: outputSchemas() }, settings)
    const metrics = () => [...running.metrics(), processMetrics()]
    // Stops at once when the id window changes: it would keep deleting by the old window.
    return { running, id_window_ms, metrics, other_window_drain_ms: 0 }
  })
}

/** Nice value of the process. When CPU is scarce, the audit yields to the services that handle passes, and catches up later. */
const NICENESS = 5

/** Runs the process until it receives a signal to stop. */
export async function main(): Promise<void> {
  setPriority(NICENESS)
  await runService(() => runAudit(process.env), { printable: visibleLines, repeats: new Repeats() })
}
