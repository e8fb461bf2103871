import type { Bus, SlotLoad } from '@passover/bus'
import { type DueEnd, passError, withTimeout } from '@passover/core'
import type { PassError } from '@passover/schemas'
import type { BaseContext } from '../runtime/base-context.js'

/** What is known of a pass whose time is over and that no worker was handed. */
export interface UntriedWork {
  /** Whether any worker of the subagent asks for work, or has some. */
  workers: boolean
}

type Looked = SlotLoad[] | undefined

/** The end of a pass waits no longer than this for an explanation. */
const LOOKUP_TIMEOUT_MS = 500
/** Looks under way, by subagent: passes that time out together share one. */
const underWay = new WeakMap<Bus, Map<string, Promise<Looked>>>()

/**
 * Finds out whether a pass that timed out was never handed to a worker: its work is newer than all that its work consumer handed out. A pass
 * with a fence was tried, so it is not looked up.
 *
 * @returns undefined where somebody may have tried, or where that is not known
 */
export async function findUntried({ deps }: Pick<BaseContext, 'deps'>, { key, journal, why }: DueEnd): Promise<UntriedWork | undefined> {
  if (why !== 'deadline passed' || journal.state !== 'open' || journal.attempt > 1) return undefined
  const { by: slot, sequence, time } = journal.work
  const loads = await withTimeout(deps.clock, LOOKUP_TIMEOUT_MS, look(deps.bus, key.subagent))
  const load = loads?.find((one) => one.slot === slot)
  // A consumer that was lost and made again does not know what the one before it handed out.
  if (!loads || !load || load.delivered >= sequence || load.created > time) return undefined
  return { workers: loads.some(({ idle, running }) => idle + running > 0) }
}

function look(bus: Bus, subagent: string): Promise<Looked> {
  const looks = underWay.get(bus) ?? new Map<string, Promise<Looked>>()
  underWay.set(bus, looks)
  const known = looks.get(subagent)
  if (known) return known
  const made = bus
    .workload(subagent)
    .catch(() => undefined)
    .finally(() => looks.delete(subagent))
  looks.set(subagent, made)
  return made
}

/** Returns the E010 of a pass that nobody tried. It says no more than what the work consumers tell. */
export function untriedError(
  { key: { subagent }, code }: Pick<DueEnd, 'key' | 'code'>,
  { timeout_ms, untried }: { timeout_ms: number | undefined; untried: UntriedWork },
): PassError {
  const details = { timeout_ms, attempts: 0 }
  if (untried.workers) return passError(code, `no worker of ${subagent} took it within ${timeout_ms} ms`, details)
  const mend = `start a worker: passover work ${subagent} -- <command>`
  return passError(code, `no return within ${timeout_ms} ms: no worker of ${subagent} asks for work`, { ...details, mend })
}
