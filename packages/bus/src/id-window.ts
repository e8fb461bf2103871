import type { JetStreamApi } from './api.js'
import type { Config } from './differences.js'
import { TopologyError } from './errors.js'
import type { Subjects } from './subjects.js'

/** DESIGN §2 Ids: how long an id may be used after its time, where nobody chose otherwise. */
export const DEFAULT_ID_WINDOW_MS = 3_600_000
/** In the stream's own metadata: it is a property of what is stored, and no two readers may judge it by different ones (decision 92). */
const KEY = 'passover.id_window_ms'

/** As the stream's configuration has it; undefined: it was made by an earlier version. */
export function idWindowIn(config: { metadata?: unknown }): number | undefined {
  const { metadata } = config
  const told = typeof metadata === 'object' && metadata !== null ? Number((metadata as Config)[KEY]) : Number.NaN
  return Number.isSafeInteger(told) && told > 0 ? told : undefined
}

/** As the audit answers `time`, to who may not ask for the stream's configuration. */
export function idWindowTold(answer: unknown): number | undefined {
  const told = typeof answer === 'object' && answer !== null ? (answer as { id_window_ms?: unknown }).id_window_ms : undefined
  return typeof told === 'number' && Number.isSafeInteger(told) && told > 0 ? told : undefined
}

export function idWindowMetadata(id_window_ms: number = DEFAULT_ID_WINDOW_MS): Record<string, string> {
  return { [KEY]: String(id_window_ms) }
}

/**
 * A stream that exists keeps its window: with another one its readers would disagree about which first steps were too late. Written down where
 * an earlier version did not. TopologyError where another one is wanted.
 */
export async function keepIdWindow(
  api: JetStreamApi,
  subjects: Subjects,
  { found, wanted }: { found: Config; wanted: number | undefined },
) {
  if (wanted === undefined) return
  const kept = idWindowIn(found)
  if (kept === wanted) return
  if (kept === undefined) {
    const metadata = { ...(found.metadata as object | undefined), ...idWindowMetadata(wanted) }
    await api.must(`STREAM.UPDATE.${subjects.stream}`, { ...found, metadata })
    return
  }
  const hint = 'Leave PASSOVER_ID_WINDOW_MS out: everybody takes it from the stream. A stream keeps the window that it was made with.'
  throw new TopologyError(`stream ${subjects.stream}`, [{ field: 'id window (ms)', found: kept, expected: wanted }], hint)
}
