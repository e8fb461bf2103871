import type { Bus, PriorityLoad } from '@passover/bus'
import { type DueEnd, passError, withTimeout } from '@passover/core'
import type { PassError } from '@passover/schemas'
import type { BaseContext } from '../runtime/base-context.js'

/** Facts about a pass that timed out before it was delivered to a worker. */
export interface UntriedWork {
  /** True if any worker of the subagent waits for work or is running some. */
  workers: boolean
}

type LoadResult = PriorityLoad[] | undefined

/** Maximum time in milliseconds that ending a pass is delayed by this lookup. */
const LOOKUP_TIMEOUT_MS = 500
/** Lookups in progress by subagent. Passes that time out together share one. */
const underWay = new WeakMap<Bus, Map<string, Promise<LoadResult>>>()

/**
 * Finds out whether a pass that timed out was never delivered to a worker: its work is newer than everything that its work consumer delivered. A pass
 * with a fence was tried, so it is not looked up.
 *
 * @returns `undefined` if a worker may have tried it, or if this is not known
 */
export async function findUntried({ deps }: Pick<BaseContext, 'deps'>, { key, journal, why }: DueEnd): Promise<UntriedWork | undefined> {
  if (why !== 'deadline passed' || journal.state !== 'open' || journal.attempt > 1) return undefined
  const { by: priority, sequence, time } = journal.work
  const loads = await withTimeout(deps.clock, LOOKUP_TIMEOUT_MS, lookUpLoad(deps.bus, key.subagent))
  const load = loads?.find((one) => one.priority === priority)
  // A consumer that was lost and created again does not know what its predecessor delivered.
  if (!loads || !load || load.delivered >= sequence || load.created > time) return undefined
  return { workers: loads.some(({ idle, running }) => idle + running > 0) }
}

function lookUpLoad(bus: Bus, subagent: string): Promise<LoadResult> {
  const lookups = underWay.get(bus) ?? new Map<string, Promise<LoadResult>>()
  underWay.set(bus, lookups)
  const known = lookups.get(subagent)
  if (known) return known
  const lookup = bus
    .workload(subagent)
    .catch(() => undefined)
    .finally(() => lookups.delete(subagent))
  lookups.set(subagent, lookup)
  return lookup
}

/** Returns the E010 of a pass that no worker tried. Its message states only facts that the work consumers show. */
export function untriedError(
  { key: { subagent }, code }: Pick<DueEnd, 'key' | 'code'>,
  { timeout_ms, untried }: { timeout_ms: number | undefined; untried: UntriedWork },
): PassError {
  const details = { timeout_ms, attempts: 0 }
  if (untried.workers) return passError(code, `no worker of ${subagent} received the pass within ${timeout_ms} ms`, details)
  const mend = `to start a worker: passover work ${subagent} -- <command>`
  return passError(code, `no return within ${timeout_ms} ms: no worker of ${subagent} is connected`, { ...details, mend })
}
