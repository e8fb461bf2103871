#!/usr/bin/env node
import { setPriority } from 'node:os'
import { pathToFileURL } from 'node:url'
import {
  DEFAULT_ID_WINDOW_MS,
  healthPort,
  nodeRandom,
  openBus,
  otherIdWindow,
  processMetrics,
  readTextFile,
  serveHealth,
  serverClock,
} from '@passover/bus'
import { SYSTEM } from '@passover/schemas'
import { outputSchemas } from '@passover/validation'
import { pino } from 'pino'
import { readEnvironment } from './environment.js'
import { startAudit } from './healing.js'
import { auditOptions } from './options.js'
import type { AuditRunning } from './running.js'

const DRAIN_MS = 10_000
/** Of a process that ended so that its supervisor starts it anew. */
const START_ANEW = 1

/** An audit process: connects as its environment says (see environment.ts), makes the topology, starts. */
export async function runAudit(env: Record<string, string | undefined>): Promise<AuditRunning> {
  const told = readEnvironment(env, readTextFile)
  const log = pino(
    { name: 'audit', level: told.log_level, redact: ['*.data', '*.password', '*.token', '*.credentials'] },
    pino.destination(2),
  )
  const bus = await openBus({ ...told.bus, identity: SYSTEM, name: 'passover audit' })
  auditOptions.parse(told.settings)
  await bus.ensureTopology({ id_window_ms: told.settings.id_window_ms, silent_stream: 'refuse' })
  const id_window_ms = bus.idWindow ?? DEFAULT_ID_WINDOW_MS
  const settings = { ...told.settings, id_window_ms }
  const running = await startAudit({ bus, clock: serverClock(bus), random: nodeRandom, log, schemas: outputSchemas() }, settings)
  void otherIdWindow(bus, id_window_ms).then(async (now) => {
    log.fatal({ began_with: id_window_ms, now }, 'the stream has another id window now: this process ends, to be started anew with it')
    // At once: it would go on deleting by the former.
    await running.drain(0)
    process.exit(START_ANEW)
  })
  const port = healthPort(env)
  const metrics = () => [...running.metrics(), processMetrics()]
  if (port !== undefined) log.info({ url: (await serveHealth(() => running.health(), port, metrics)).url }, 'health is told')
  return running
}

/** The audit only watches: where processors are short, it yields to those who pass, and catches up after. */
const NICENESS = 5

async function main(): Promise<void> {
  setPriority(NICENESS)
  const running = await runAudit(process.env)
  const stop = () => void running.drain(DRAIN_MS).then(() => process.exit(0))
  process.once('SIGTERM', stop)
  process.once('SIGINT', stop)
  await running.closed
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) await main()
