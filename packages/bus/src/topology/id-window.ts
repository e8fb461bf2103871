import { machineTiming, type Timing } from '../clock/timing.js'
import type { JetStreamApi } from '../messaging/jetstream-api.js'
import type { Subjects } from '../subjects/subjects.js'
import type { Bus } from '../types/bus.js'
import { TopologyError } from '../types/errors.js'
import type { Config } from './config-diff.js'

/** How long an id may be used after its time, where nobody chose otherwise (docs/architecture/protocol.md#ids). */
export const DEFAULT_ID_WINDOW_MS = 3_600_000
/** In the stream's own metadata: it is a property of what is stored, and no two readers may judge it by different ones (decision 92). */
const KEY = 'passover.id_window_ms'

/** As the stream's configuration has it; undefined: nobody who was told one wrote it, so it is an hour, or what an earlier version's processes were told. */
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

export function idWindowMetadata(id_window_ms: number): Record<string, string> {
  return { [KEY]: String(id_window_ms) }
}

interface Keeping {
  found: Config
  wanted: number | undefined
  /** Of a stream that says none: see TopologyOptions. */
  silent: 'write' | 'refuse'
}

/**
 * A stream that exists keeps its window: with another one its readers would disagree about which first steps were too late. Written down where
 * it says none. TopologyError where another one is wanted, or who wants one may not write it.
 */
export async function keepIdWindow(api: JetStreamApi, subjects: Subjects, { found, wanted, silent }: Keeping): Promise<void> {
  if (wanted === undefined) return
  const kept = idWindowIn(found)
  if (kept !== undefined) return refuseOther(subjects, { kept, wanted, hint: ITS_OWN })
  if (silent === 'refuse') return refuseOther(subjects, { kept, read_as: DEFAULT_ID_WINDOW_MS, wanted, hint: DISPATCHER_FIRST })
  const metadata = { ...(found.metadata as object | undefined), ...idWindowMetadata(wanted) }
  await api.must(`STREAM.UPDATE.${subjects.stream}`, { ...found, metadata })
  // Another process may have written it, or the whole configuration, between our look and our update.
  const { config } = await api.must<{ config: Config }>(`STREAM.INFO.${subjects.stream}`)
  refuseOther(subjects, { kept: idWindowIn(config), wanted, hint: ITS_OWN })
}

const ITS_OWN =
  'Leave PASSOVER_ID_WINDOW_MS out: everybody takes it from the stream. A stream keeps the window that was first written into it.'
const DISPATCHER_FIRST = 'Start a dispatcher with this PASSOVER_ID_WINDOW_MS first: it writes it into the stream.'

interface Compared {
  kept: number | undefined
  read_as?: number
  wanted: number
  hint: string
}

function refuseOther({ stream }: Subjects, { kept, read_as, wanted, hint }: Compared): void {
  if ((kept ?? read_as) === wanted) return
  throw new TopologyError(`stream ${stream}`, [{ field: 'id window (ms)', found: kept, expected: wanted }], hint)
}

/** A look costs nothing: the bus learns the window with everything that it asks of the stream's configuration, every minute at least. */
const POLL_INTERVAL_MS = 1_000

/**
 * Settles with the window that the stream has now, once it is not the one that a process began with. Such a process judges by another rule than
 * the others, and must end: what it has in memory was judged by the former (decision 92).
 */
export function otherIdWindow(bus: Pick<Bus, 'idWindow' | 'closed'>, began: number, timing: Timing = machineTiming): Promise<number> {
  return new Promise((settle) => {
    let closed = false
    void bus.closed.then(() => {
      closed = true
    })
    const look = () => {
      const now = bus.idWindow ?? DEFAULT_ID_WINDOW_MS
      if (now !== began) settle(now)
      else if (!closed) timing.after(POLL_INTERVAL_MS, look)
    }
    look()
  })
}
