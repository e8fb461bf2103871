import type { Bus } from '@passover/bus'
import { askStats } from '@passover/operator'
import type { StatsAnswer } from '@passover/schemas'
import { CliFailure } from '../errors.js'
import { duration } from '../terminal/duration.js'
import { type Check, warning } from './check.js'

/** A queue with fewer passes than this is not looked at. */
export const BACKLOG_THRESHOLD = 100
/** Passes that were asked for longer ago than this count as delayed. */
const DELAY_THRESHOLD_MS = 60_000
const DELAYED_SHARE = 0.75

type Stats = Pick<Extract<StatsAnswer, { ok: true }>, 'passes' | 'by'>

/** Asks the audit what is delayed. No check where it does not answer in time: another check says whether an audit answers at all. */
export async function inspectQueue(bus: Bus, subagent: string): Promise<Check[]> {
  try {
    return checkQueue(subagent, await askStats(bus, { subagent, status: 'waiting_for_return', to: bus.now() - DELAY_THRESHOLD_MS }))
  } catch (error) {
    if (error instanceof CliFailure) return []
    throw error
  }
}

/**
 * Names the originator that has most of a subagent's delayed work: the queue is first come, first served, so all others wait behind it.
 *
 * @param delayed - the subagent's open passes that were asked for more than `DELAY_THRESHOLD_MS` ago
 */
export function checkQueue(subagent: string, delayed: Stats): Check[] {
  const [most] = delayed.by.pair?.groups ?? []
  if (!most || most.count < BACKLOG_THRESHOLD || most.count < delayed.passes * DELAYED_SHARE) return []
  const [originator] = most.name.split('->')
  const text = `${most.count} of ${delayed.passes} open passes to ${subagent} that were asked for more than ${duration(DELAY_THRESHOLD_MS)} ago are from ${originator}; passes of others wait behind them`
  return [
    warning(
      'queue',
      text,
      `passover policy set max_active <n> --pair '${most.name}' bounds it, more workers shorten it (docs/operations/quotas.md)`,
    ),
  ]
}
