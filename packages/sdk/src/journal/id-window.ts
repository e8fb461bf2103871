import { type Bus, DEFAULT_ID_WINDOW_MS } from '@passover/bus'

/** How long ids may be used: what readers judge late first steps and old work by. */
export interface IdWindow {
  readonly id_window_ms: number
}

/**
 * The stream's own, looked up each time: who may not ask the stream learns it from the audit, which may come later. `given`: for tests.
 * `environment`: what is taken until it is known, and where the stream or the audit are of an earlier version.
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

/** What a journal is read by, with the window as it is known then. */
export function viewRules<More extends object>(window: IdWindow, more: More): IdWindow & More {
  return Object.defineProperty({ ...more }, 'id_window_ms', { get: () => window.id_window_ms, enumerable: true }) as IdWindow & More
}
