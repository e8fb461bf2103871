import { savedWindow } from '@passover/archive'
import { type Bus, BusReadError, DEFAULT_ID_WINDOW_MS } from '@passover/bus'
import { CliFailure } from '../errors.js'
import { duration } from '../terminal/duration.js'
import type { Terminal } from '../terminal/terminal.js'

type IdWindowSource = Pick<Bus, 'idWindow' | 'bounds' | 'measureClock'>

/**
 * Returns the id window of the installation. It decides which first steps count, so the default of one hour applies only if the stream (or
 * the audit service) answers without one. Throws CliFailure E040 if neither can be asked.
 */
export async function readIdWindow(bus: IdWindowSource): Promise<{ id_window_ms: number }> {
  // Usually known since connecting. Asks now if it is not.
  if (bus.idWindow === undefined) await askForIdWindow(bus)
  return { id_window_ms: bus.idWindow ?? DEFAULT_ID_WINDOW_MS }
}

async function askForIdWindow(bus: IdWindowSource): Promise<void> {
  try {
    await bus.bounds()
  } catch (error) {
    if (!(error instanceof BusReadError)) throw error
    // Without permission to ask the stream, the audit service's answer with the time contains the id window too.
    if (error.reason === 'permission' && (await bus.measureClock().catch(() => false))) return
    throw new CliFailure('E040', `cannot read the id window of the installation: ${error.message}`, {
      hint: 'try again, or give it to verify, evidence, replay and audit rebuild: --id-window <time>',
    })
  }
}

/** Returns the id window (ms) that was asked for, else the one saved with the archive, else the default, with a note. Throws ArchiveUnreadable. */
export async function archiveIdWindow({ note }: Pick<Terminal, 'note'>, folder: string, asked: number | undefined): Promise<number> {
  const known = asked ?? (await savedWindow(folder))
  if (known === undefined)
    note(`! ${folder} does not record its id window; using ${duration(DEFAULT_ID_WINDOW_MS)} (--id-window sets another)`)
  return known ?? DEFAULT_ID_WINDOW_MS
}
