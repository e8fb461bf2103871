#!/usr/bin/env node
import { pathToFileURL } from 'node:url'
import { DEFAULT_ID_WINDOW_MS, healthPort, openBus, otherIdWindow, readTextFile, serveHealth, serverClock } from '@passover/bus'
import { SYSTEM } from '@passover/schemas'
import { pino } from 'pino'
import { readEnvironment } from './environment.js'
import { type Notifier, startNotifier } from './notifier.js'

const DRAIN_MS = 10_000
/** Of a process that ended so that its supervisor starts it anew. */
const START_ANEW = 1

/** A notifier process: connects as its environment says (see environment.ts) and starts. */
export async function runNotifier(env: Record<string, string | undefined>): Promise<Notifier> {
  const told = readEnvironment(env, readTextFile)
  const log = pino(
    { name: 'notifier', level: told.log_level, redact: ['*.secret', '*.password', '*.token', '*.credentials'] },
    pino.destination(2),
  )
  const bus = await openBus({ ...told.bus, identity: SYSTEM, name: 'passover notifier' })
  // Throws where the stream does not answer: then its window is not known, and is not to be taken for the default one.
  await bus.bounds()
  const id_window_ms = bus.idWindow ?? DEFAULT_ID_WINDOW_MS
  const running = await startNotifier({ bus, clock: serverClock(bus), log }, { ...told.settings, id_window_ms })
  void otherIdWindow(bus, id_window_ms).then(async (now) => {
    log.fatal({ began_with: id_window_ms, now }, 'the stream has another id window now: this process ends, to be started anew with it')
    await running.drain(DRAIN_MS)
    process.exit(START_ANEW)
  })
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
