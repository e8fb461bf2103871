import { closingOnFailure, DEFAULT_ID_WINDOW_MS, openBus, readTextFile, runService, serverClock, tendService } from '@passover/bus'
import { logOptions, Repeats, visibleLines } from '@passover/core'
import { SYSTEM } from '@passover/schemas'
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
  const onError = (error: unknown) => log.warn({ err: error }, 'reported by the connection')
  const bus = await openBus({ ...told.bus, identity: SYSTEM, name: 'passover notifier', onError })
  const opened: AsyncDisposable[] = [bus]
  return closingOnFailure(opened, async () => {
    // Throws where the stream does not answer: then its window is not known, and is not to be taken for the default one.
    await bus.bounds()
    const id_window_ms = bus.idWindow ?? DEFAULT_ID_WINDOW_MS
    const running = await startNotifier({ bus, clock: serverClock(bus), log }, { ...told.settings, id_window_ms })
    opened.push(running)
    await tendService({ running, bus, log, env, id_window_ms })
    return running
  })
}

/** Runs the process until it is told to stop. */
export async function main(): Promise<void> {
  await runService(() => runNotifier(process.env), { printable: visibleLines, repeats: new Repeats() })
}
