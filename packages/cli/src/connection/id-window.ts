import { savedWindow } from '@passover/archive'
import { type Bus, BusReadError, DEFAULT_ID_WINDOW_MS } from '@passover/bus'
import { CliFailure } from '../errors.js'
import { duration } from '../terminal/duration.js'
import type { Terminal } from '../terminal/terminal.js'

type IdWindowSource = Pick<Bus, 'idWindow' | 'bounds' | 'measureClock'>

/**
 * The id window of the installation, as its stream has it. CliFailure E040 where nobody tells it: which first steps count hangs on it, so an hour is
 * never taken for what could not be asked (of a stream that answers and says none it is an hour).
 */
export async function readIdWindow(bus: IdWindowSource): Promise<{ id_window_ms: number }> {
  // It is told on connecting; who was not told then asks now.
  if (bus.idWindow === undefined) await askForIdWindow(bus)
  return { id_window_ms: bus.idWindow ?? DEFAULT_ID_WINDOW_MS }
}

async function askForIdWindow(bus: IdWindowSource): Promise<void> {
  try {
    await bus.bounds()
  } catch (error) {
    if (!(error instanceof BusReadError)) throw error
    // Who may not ask the stream is told by the audit, with the time.
    if (error.reason === 'permission' && (await bus.measureClock().catch(() => false))) return
    throw new CliFailure('E040', `the id window of the installation is not known: ${error.message}`, {
      hint: 'try again; verify, evidence, replay and audit rebuild also take it: --id-window <time>',
    })
  }
}

/** What is asked for, else what the folder of a saved archive says (ms), else the default, which is told. Throws ArchiveUnreadable. */
export async function archiveIdWindow({ note }: Pick<Terminal, 'note'>, folder: string, asked: number | undefined): Promise<number> {
  const known = asked ?? (await savedWindow(folder))
  if (known === undefined)
    note(`! ${folder} does not say its id window: it is judged by ${duration(DEFAULT_ID_WINDOW_MS)} (--id-window says another)`)
  return known ?? DEFAULT_ID_WINDOW_MS
}
