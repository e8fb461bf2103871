import { type Bus, DEFAULT_ID_WINDOW_MS } from '@passover/bus'

/** Time for which an id can begin a pass, in milliseconds. Readers use it to detect late first steps and old work. */
export interface IdWindow {
  readonly id_window_ms: number
}

/**
 * Returns the id window of the stream. It is looked up at each access, because an agent without permission to read the stream learns it later, from
 * the audit service. `given` overrides it in tests. `environment` is used until it is known, and with a stream or audit service of an earlier
 * version.
 */
export function idWindow(
  bus: Pick<Bus, 'idWindow'>,
  { given, environment }: { given?: number | undefined; environment?: number | undefined },
): IdWindow {
  return {
    get id_window_ms() {
      return given ?? bus.idWindow ?? environment ?? DEFAULT_ID_WINDOW_MS
    },
  }
}

/** Returns rules for reading a journal that always use the current id window. */
export function viewRules<More extends object>(window: IdWindow, more: More): IdWindow & More {
  return Object.defineProperty({ ...more }, 'id_window_ms', { get: () => window.id_window_ms, enumerable: true }) as IdWindow & More
}
