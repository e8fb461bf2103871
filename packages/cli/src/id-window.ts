import { savedWindow } from '@passover/archive'
import { type Bus, DEFAULT_ID_WINDOW_MS } from '@passover/bus'

/** The id window of the installation, as its stream has it. */
export function rulesOf({ idWindow }: Pick<Bus, 'idWindow'>): { id_window_ms: number } {
  return { id_window_ms: idWindow ?? DEFAULT_ID_WINDOW_MS }
}

/** What is asked for, else what the folder of a saved archive says, else the default (ms). Throws ArchiveUnreadable. */
export async function windowOf(folder: string, asked: number | undefined): Promise<number> {
  return asked ?? (await savedWindow(folder)) ?? DEFAULT_ID_WINDOW_MS
}
