import { type Bus, DEFAULT_ID_WINDOW_MS } from '@passover/bus'

/** The id window of the installation, as its stream has it. */
export function rulesOf({ idWindow }: Pick<Bus, 'idWindow'>): { id_window_ms: number } {
  return { id_window_ms: idWindow ?? DEFAULT_ID_WINDOW_MS }
}
