#!/usr/bin/env node
import { pathToFileURL } from 'node:url'
import { healthPort, openBus, readTextFile, serveHealth, serverClock } from '@passover/bus'
import { SYSTEM } from '@passover/schemas'
import { pino } from 'pino'
import { readEnvironment } from './environment.js'
import { type Notifier, startNotifier } from './notifier.js'

const DRAIN_MS = 10_000

/** A notifier process: connects as its environment says (see environment.ts) and starts. */
export async function runNotifier(env: Record<string, string | undefined>): Promise<Notifier> {
  const told = readEnvironment(env, readTextFile)
  const log = pino(
    { name: 'notifier', level: told.log_level, redact: ['*.secret', '*.password', '*.token', '*.credentials'] },
    pino.destination(2),
  )
  const bus = await openBus({ ...told.bus, identity: SYSTEM, name: 'passover notifier' })
  const running = await startNotifier({ bus, clock: serverClock(bus), log }, { ...told.settings, id_window_ms: bus.idWindow })
  const port = healthPort(env)
  if (port !== undefined) log.info({ url: (await serveHealth(() => running.health(), port)).url }, 'health is told')
  return running
}

async function main(): Promise<void> {
  const running = await runNotifier(process.env)
  const stop = () => void running.drain(DRAIN_MS).then(() => process.exit(0))
  process.once('SIGTERM', stop)
  process.once('SIGINT', stop)
  await running.closed
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) await main()
