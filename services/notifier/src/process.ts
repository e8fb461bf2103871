import { DEFAULT_ID_WINDOW_MS, readTextFile, runService, serverClock, startService } from '@passover/bus'
import { logOptions, Repeats, visibleLines } from '@passover/core'
import { pino } from 'pino'
import { readEnvironment } from './environment.js'
import { type Notifier, startNotifier } from './notifier.js'
import { notifierOptions } from './options.js'

/** A notifier process: connects as its environment says (see environment.ts) and starts. */
export async function runNotifier(env: Record<string, string | undefined>): Promise<Notifier> {
  const told = readEnvironment(env, readTextFile)
  const log = pino(
    { ...logOptions(), name: 'notifier', level: told.log_level, redact: ['*.secret', '*.password', '*.token', '*.credentials'] },
    pino.destination(2),
  )
  notifierOptions.parse(told.settings)
  return startService({ name: 'notifier', bus: told.bus, log, env }, async (bus) => {
    // Throws where the stream does not answer: then its window is not known, and is not to be taken for the default one.
    await bus.bounds()
    const id_window_ms = bus.idWindow ?? DEFAULT_ID_WINDOW_MS
    const running = await startNotifier({ bus, clock: serverClock(bus), log }, { ...told.settings, id_window_ms })
    return { running, id_window_ms }
  })
}

/** Runs the process until it is told to stop. */
export async function main(): Promise<void> {
  await runService(() => runNotifier(process.env), { printable: visibleLines, repeats: new Repeats() })
}
