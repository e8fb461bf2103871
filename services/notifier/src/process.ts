import { DEFAULT_ID_WINDOW_MS, readTextFile, runService, serverClock, startService } from '@passover/bus'
import { logOptions, Repeats, visibleLines } from '@passover/core'
import { pino } from 'pino'
import { readEnvironment } from './environment.js'
import { type Notifier, startNotifier } from './notifier.js'
import { notifierOptions } from './options.js'

/** Runs a notifier process: connects as configured by the environment (see environment.ts) and starts the notifier. */
export async function runNotifier(env: Record<string, string | undefined>): Promise<Notifier> {
  const told = readEnvironment(env, readTextFile)
  const log = pino(
    { ...logOptions(), name: 'notifier', level: told.log_level, redact: ['*.secret', '*.password', '*.token', '*.credentials'] },
    pino.destination(2),
  )
  notifierOptions.parse(told.settings)
  return startService({ name: 'notifier', bus: told.bus, log, env }, async (bus) => {
    // Throws if the stream does not answer: its id window is then unknown, and must not be replaced by the default.
    await bus.bounds()
    const id_window_ms = bus.idWindow ?? DEFAULT_ID_WINDOW_MS
    const running = await startNotifier({ bus, clock: serverClock(bus), log }, { ...told.settings, id_window_ms })
    return { running, id_window_ms }
  })
}

/** Runs the process until it receives a signal to stop. */
export async function main(): Promise<void> {
  await runService(() => runNotifier(process.env), { printable: visibleLines, repeats: new Repeats() })
}
