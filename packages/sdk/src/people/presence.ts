import type { Bus } from '@passover/bus'
import { type PassRow, PRESENCE_MAX_AGE_MS, type PresenceRecord, presenceRecord } from '@passover/schemas'
import { totalLoad } from './load.js'

/** What the workers of an agent say of themselves, over all instances. */
export interface Up {
  instances: number
  running: number
  places: number
}

const NONE: Up = { instances: 0, running: 0, places: 0 }

/** Workers that are up, by agent. Nothing depends on them, so that a bucket that cannot be read has none. */
export async function readPresence(bus: Bus, agent?: string): Promise<ReadonlyMap<string, Up>> {
  const up = new Map<string, Up>()
  try {
    const table = await bus.table('presence', presenceRecord)
    // One that was written while they are read comes twice.
    const found = new Map<string, PresenceRecord>()
    for await (const { key, value } of table.entries(agent === undefined ? '>' : `${agent}.*`)) found.set(key, value)
    for (const [key, value] of found) if (isUp(key, value, bus.now())) up.set(value.agent, sum(up.get(value.agent) ?? NONE, value))
  } catch {
    return up
  }
  return up
}

/** Under another agent's name nobody can write; a server that does not forget by itself leaves old ones. */
function isUp(key: string, { agent, seen_at }: PresenceRecord, now: number): boolean {
  return key.startsWith(`${agent}.`) && now - seen_at < PRESENCE_MAX_AGE_MS
}

function sum(up: Up, { running, concurrency }: PresenceRecord): Up {
  return { instances: up.instances + 1, running: up.running + running, places: up.places + concurrency }
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

/** Why a pass waits, and the command that helps (UX.md). */
export function noWorkersText(subagent: string): string {
  return `Queued: 0 workers on \`${subagent}\`, start one with: passover work ${subagent} -- <command>`
}
