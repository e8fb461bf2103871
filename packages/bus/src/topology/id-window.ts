import { machineTiming, type Timing } from '../clock/timing.js'
import type { JetStreamApi } from '../messaging/jetstream-api.js'
import type { Subjects } from '../subjects/subjects.js'
import type { Bus } from '../types/bus.js'
import { TopologyError } from '../types/errors.js'
import type { Config } from './config-diff.js'

/** Default id window: how long an id may be used after its time (docs/architecture/protocol.md#ids). */
export const DEFAULT_ID_WINDOW_MS = 3_600_000
/** Key in the stream's metadata. The window is a property of the stored data: all readers must judge it by the same one (decision 92). */
const KEY = 'passover.id_window_ms'

/**
 * Returns the id window of a stream configuration. `undefined` if no process configured with a window has written it: then it is an hour, or the
 * window configured in processes of an earlier version.
 */
export function idWindowIn(config: { metadata?: unknown }): number | undefined {
  const { metadata } = config
  const told = typeof metadata === 'object' && metadata !== null ? Number((metadata as Config)[KEY]) : Number.NaN
  return Number.isSafeInteger(told) && told > 0 ? told : undefined
}

/** Returns the id window from the audit service's answer to `time`, for clients that may not read the stream's configuration. */
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
  /** Behaviour for a stream without a window; see TopologyOptions. */
  silent: 'write' | 'refuse'
}

/**
 * Keeps the window of an existing stream: with another one its readers would disagree about which first steps were too late. Writes the window if the
 * stream has none. Throws TopologyError if another window is wanted, or if it may not be written.
 */
export async function keepIdWindow(api: JetStreamApi, subjects: Subjects, { found, wanted, silent }: Keeping): Promise<void> {
  if (wanted === undefined) return
  const kept = idWindowIn(found)
  if (kept !== undefined) return refuseOther(subjects, { kept, wanted, hint: ITS_OWN })
  if (silent === 'refuse') return refuseOther(subjects, { kept, read_as: DEFAULT_ID_WINDOW_MS, wanted, hint: DISPATCHER_FIRST })
  const metadata = { ...(found.metadata as object | undefined), ...idWindowMetadata(wanted) }
  await api.must(`STREAM.UPDATE.${subjects.stream}`, { ...found, metadata })
  // Another process may have written it, or the whole configuration, between the lookup and the update.
  const { config } = await api.must<{ config: Config }>(`STREAM.INFO.${subjects.stream}`)
  refuseOther(subjects, { kept: idWindowIn(config), wanted, hint: ITS_OWN })
}

const ITS_OWN =
  'Remove PASSOVER_ID_WINDOW_MS: every process reads the id window from the stream. A stream keeps the window that was first written to it.'
const DISPATCHER_FIRST = 'Start a dispatcher with this PASSOVER_ID_WINDOW_MS first: it writes the window to the stream.'

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

/** A check costs nothing: the bus updates the window with every read of the stream's configuration, at least every minute. */
const POLL_INTERVAL_MS = 1_000

/**
 * Settles with the stream's current window once it differs from the one that the process started with. Such a process applies another rule than the
 * others and must exit: its in-memory state is based on the former window (decision 92).
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
