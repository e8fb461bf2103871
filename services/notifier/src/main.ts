#!/usr/bin/env node
import { pathToFileURL } from 'node:url'
import { DEFAULT_ID_WINDOW_MS, openBus, readTextFile, runService, serverClock, tendService } from '@passover/bus'
import { PRINTABLE_LOG, visibleLines } from '@passover/core'
import { SYSTEM } from '@passover/schemas'
import { pino } from 'pino'
import { readEnvironment } from './environment.js'
import { type Notifier, startNotifier } from './notifier.js'
import { notifierOptions } from './options.js'

/** A notifier process: connects as its environment says (see environment.ts) and starts. */
export async function runNotifier(env: Record<string, string | undefined>): Promise<Notifier> {
  const told = readEnvironment(env, readTextFile)
  const log = pino(
    { ...PRINTABLE_LOG, name: 'notifier', level: told.log_level, redact: ['*.secret', '*.password', '*.token', '*.credentials'] },
    pino.destination(2),
  )
  notifierOptions.parse(told.settings)
  const bus = await openBus({ ...told.bus, identity: SYSTEM, name: 'passover notifier' })
  // Throws where the stream does not answer: then its window is not known, and is not to be taken for the default one.
  await bus.bounds()
  const id_window_ms = bus.idWindow ?? DEFAULT_ID_WINDOW_MS
  const running = await startNotifier({ bus, clock: serverClock(bus), log }, { ...told.settings, id_window_ms })
  await tendService({ running, bus, log, env, id_window_ms })
  return running
}

async function main(): Promise<void> {
  await runService(() => runNotifier(process.env), visibleLines)
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) await main()
