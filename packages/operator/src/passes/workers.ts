import { type Bus, decode, type TableBytes } from '@passover/bus'
import { type PassRow, PRESENCE_MAX_AGE_MS, PRESENCE_PLACES, type PresenceRecord, presenceRecord } from '@passover/schemas'
import { totalLoad } from './queue-load.js'

/** What the workers of an agent say of themselves, over all instances. */
export interface WorkerCounts {
  instances: number
  running: number
  places: number
}

const NONE: WorkerCounts = { instances: 0, running: 0, places: 0 }
/** Entries that are read of those written since the reading began. */
const MAX_NEW_ENTRIES = 1_000
/** How far the clock of a worker may be ahead, ms. */
const MAX_CLOCK_SKEW_MS = 5_000

/** Workers that are up, by agent. Nothing depends on them, so that a bucket that cannot be read has none. */
export async function readPresence(bus: Bus, agent?: string): Promise<ReadonlyMap<string, WorkerCounts>> {
  try {
    const table = await bus.table('presence', presenceRecord)
    const { last } = await table.extent()
    const found = new PresenceScan({ last, now: () => bus.now(), only: agent })
    const enough = new AbortController()
    const take = ({ data, ...entry }: TableBytes): void => {
      if (data && !found.take({ ...entry, data })) enough.abort()
    }
    await table.read(take, { signal: enough.signal, ...(agent === undefined ? {} : { filter: `${agent}.*` }) })
    return found.up()
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
 * What was found of the bucket. An agent can write any number of entries, as fast as they are read: of each agent PRESENCE_PLACES are looked at,
 * so that reading takes bounded memory and ends, and one agent hides nothing of the others.
 */
export class PresenceScan {
  readonly #of: { last: number; now: () => number; only?: string | undefined }
  /** By key: an entry that is written while the bucket is read comes twice. */
  readonly #found = new Map<string, Map<string, PresenceRecord | undefined>>()
  #meanwhile = 0

  /** `last`: revision when the reading began. `only`: the one agent that is read. */
  constructor(of: { last: number; now: () => number; only?: string | undefined }) {
    this.#of = of
  }

  /** False: nothing more needs to be read. */
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
      // An instance that lost its place may have an entry in the old one for a while, and counts once.
      const instances = new Map([...known.values()].flatMap((record) => (record ? [[record.instance, record]] : [])))
      if (instances.size > 0) up.set(name, [...instances.values()].reduce(sum, NONE))
    }
    return up
  }
}

/** Under another agent's name nobody can write. */
function recordOf(key: string, data: Uint8Array): PresenceRecord | undefined {
  const decoded = decode(data)
  const parsed = decoded.ok ? presenceRecord.safeParse(decoded.value) : undefined
  return parsed?.success && key.startsWith(`${parsed.data.agent}.`) ? parsed.data : undefined
}

/** A server that does not forget by itself leaves old ones. One of the future would be up for longer than anybody says so. */
function isUp({ seen_at }: PresenceRecord, now: number): boolean {
  return now - seen_at < PRESENCE_MAX_AGE_MS && seen_at - now < MAX_CLOCK_SKEW_MS
}

function sum(up: WorkerCounts, { running, concurrency }: PresenceRecord): WorkerCounts {
  const busy = Math.min(running, concurrency)
  return { instances: up.instances + 1, running: up.running + busy, places: up.places + concurrency }
}

/** Of an open pass that no person holds up: how many workers could take it. Those that don't say that they are up count once. */
export async function workersFor(bus: Bus, subagent: string): Promise<number> {
  const [up, load] = await Promise.all([readPresence(bus, subagent), totalLoad(bus, subagent)])
  return Math.max(up.get(subagent)?.instances ?? 0, load.idle + load.running > 0 ? 1 : 0)
}

/** How many workers each of these subagents has, for passes that wait for one. */
export async function workersOf(bus: Bus, rows: readonly PassRow[]): Promise<ReadonlyMap<string, number>> {
  const waiting = [...new Set(rows.filter(waitsForWorker).map(({ subagent }) => subagent))]
  return new Map(await Promise.all(waiting.map(async (name) => [name, await workersFor(bus, name)] as const)))
}

export function waitsForWorker({ status }: Pick<PassRow, 'status'>): boolean {
  return status === 'requested' || status === 'waiting_for_return'
}

/** Why a pass waits, and the command that helps. */
export function noWorkersText(subagent: string): string {
  return `Queued: 0 workers on \`${subagent}\`, start one with: passover work ${subagent} -- <command>`
}
