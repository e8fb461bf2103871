import { type Bus, decode, type TableBytes } from '@passover/bus'
import { type PassRow, PRESENCE_MAX_AGE_MS, PRESENCE_PLACES, type PresenceRecord, presenceRecord } from '@passover/schemas'
import { totalLoad } from './queue-load.js'

/** Counts of an agent's workers, summed over all instances, as reported by them. */
export interface WorkerCounts {
  instances: number
  running: number
  places: number
}

const NONE: WorkerCounts = { instances: 0, running: 0, places: 0 }
/** Maximum number of entries read that were written after the reading began. */
const MAX_NEW_ENTRIES = 1_000
/** Milliseconds by which the clock of a worker may be ahead. */
const MAX_CLOCK_SKEW_MS = 5_000

/** Returns the running workers, by agent. The numbers are for display only, so an unreadable bucket counts as empty. */
export async function readPresence(bus: Bus, agent?: string): Promise<ReadonlyMap<string, WorkerCounts>> {
  try {
    const table = await bus.table('presence', presenceRecord)
    const { last } = await table.extent()
    const scan = new PresenceScan({ last, now: () => bus.now(), only: agent })
    const enough = new AbortController()
    const take = ({ data, ...entry }: TableBytes): void => {
      if (data && !scan.take({ ...entry, data })) enough.abort()
    }
    await table.read(take, { signal: enough.signal, ...(agent === undefined ? {} : { filter: `${agent}.*` }) })
    return scan.up()
  } catch {
    return new Map()
  }
}

interface EntryBytes {
  key: string
  data: Uint8Array
  revision: number
}

/**
 * Collects entries of the presence bucket. An agent can write any number of entries, as fast as they are read. At most `PRESENCE_PLACES` entries of each
 * agent are read, so that reading ends, memory is bounded, and no agent can hide the entries of others.
 */
export class PresenceScan {
  readonly #of: { last: number; now: () => number; only?: string | undefined }
  /** Entries by agent and key. An entry that is written during the reading is read twice. */
  readonly #found = new Map<string, Map<string, PresenceRecord | undefined>>()
  #meanwhile = 0

  /** `last`: revision at the start of the reading. `only`: the single agent to read. */
  constructor(of: { last: number; now: () => number; only?: string | undefined }) {
    this.#of = of
  }

  /** Adds an entry. Returns false if no more entries are needed. */
  take({ key, data, revision }: EntryBytes): boolean {
    const { last, now, only } = this.#of
    if (revision > last && ++this.#meanwhile > MAX_NEW_ENTRIES) return false
    const name = key.slice(0, key.indexOf('.'))
    const known = this.#found.get(name) ?? new Map<string, PresenceRecord | undefined>()
    if (known.size >= PRESENCE_PLACES && !known.has(key)) return name !== only
    const record = recordOf(key, data)
    this.#found.set(name, known.set(key, record && isUp(record, now()) ? record : undefined))
    return true
  }

  up(): ReadonlyMap<string, WorkerCounts> {
    const up = new Map<string, WorkerCounts>()
    for (const [name, known] of this.#found) {
      // An instance that moved to another key may still have an entry under the old one. It counts once.
      const instances = new Map([...known.values()].flatMap((record) => (record ? [[record.instance, record]] : [])))
      if (instances.size > 0) up.set(name, [...instances.values()].reduce(sum, NONE))
    }
    return up
  }
}

/** Decodes an entry. Rejects an entry that claims the name of another agent. */
function recordOf(key: string, data: Uint8Array): PresenceRecord | undefined {
  const decoded = decode(data)
  const parsed = decoded.ok ? presenceRecord.safeParse(decoded.value) : undefined
  return parsed?.success && key.startsWith(`${parsed.data.agent}.`) ? parsed.data : undefined
}

/**
 * Returns true if the entry is current. A server without expiry keeps old entries. An entry with a time in the future would be current for longer than
 * its worker runs.
 */
function isUp({ seen_at }: PresenceRecord, now: number): boolean {
  return now - seen_at < PRESENCE_MAX_AGE_MS && seen_at - now < MAX_CLOCK_SKEW_MS
}

function sum(up: WorkerCounts, { running, concurrency }: PresenceRecord): WorkerCounts {
  const busy = Math.min(running, concurrency)
  return { instances: up.instances + 1, running: up.running + busy, places: up.places + concurrency }
}

/** Returns the number of workers that could take an open pass of the subagent. Workers without a heartbeat count as one. */
export async function workersFor(bus: Bus, subagent: string): Promise<number> {
  const [up, load] = await Promise.all([readPresence(bus, subagent), totalLoad(bus, subagent)])
  return Math.max(up.get(subagent)?.instances ?? 0, load.idle + load.running > 0 ? 1 : 0)
}

/** Returns the number of workers of each subagent with a pass that waits for a worker. */
export async function workersOf(bus: Bus, rows: readonly PassRow[]): Promise<ReadonlyMap<string, number>> {
  const waiting = [...new Set(rows.filter(waitsForWorker).map(({ subagent }) => subagent))]
  return new Map(await Promise.all(waiting.map(async (name) => [name, await workersFor(bus, name)] as const)))
}

export function waitsForWorker({ status }: Pick<PassRow, 'status'>): boolean {
  return status === 'requested' || status === 'waiting_for_return'
}

/** Returns the reason why a pass waits, and the command that helps. */
export function noWorkersText(subagent: string): string {
  return `Queued: no workers on \`${subagent}\`; to start one: passover work ${subagent} -- <command>`
}
