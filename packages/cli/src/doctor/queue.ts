import type { Bus } from '@passover/bus'
import { resolvePolicy, SYSTEM_DEFAULTS } from '@passover/core'
import { askStats } from '@passover/operator'
import { type PassOverPreferences, parsePairKey, type StatsAnswer } from '@passover/schemas'
import { CliFailure } from '../errors.js'
import { duration } from '../terminal/duration.js'
import { count } from '../terminal/text.js'
import { type Check, warning } from './check.js'

/** A queue with fewer passes than this is not looked at. */
export const BACKLOG_THRESHOLD = 100
/** Passes that were asked for longer ago than this count as delayed. */
const DELAY_THRESHOLD_MS = 60_000
const DELAYED_SHARE = 0.75
/** Pairs with at least this share of what they may have open are named, before their passes are refused. */
const NEAR_LIMIT_SHARE = 0.9

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
 * Asks the audit how many passes of each pair are open, held ones too. No check where it does not answer in time.
 *
 * @param open - how many passes to the subagent are open; the audit is not asked where too few are for any pair to be near its bound
 */
export async function inspectOpenPasses(
  bus: Bus,
  { subagent, open }: { subagent: string; open: number },
  policy: PassOverPreferences,
): Promise<Check[]> {
  const pairs = Object.keys(policy.pairs ?? {}).flatMap((pair) => parsePairKey(pair) ?? [])
  const bounds = pairs.flatMap((names) => (names.to === subagent ? (maxOpen(policy, names) ?? []) : []))
  const least = Math.min(policy.defaults?.max_open ?? SYSTEM_DEFAULTS.max_open, ...bounds)
  if (open < least * NEAR_LIMIT_SHARE) return []
  try {
    const counted = [await askStats(bus, { subagent, status: 'held' }), await askStats(bus, { subagent, status: 'waiting_for_return' })]
    return checkOpenPasses(counted, policy)
  } catch (error) {
    if (error instanceof CliFailure) return []
    throw error
  }
}

/** Names each pair that has nearly as many open passes as `max_open` lets it have, or more. One with a `max_active` of its own is bound by that. */
export function checkOpenPasses(counted: readonly Stats[], policy: PassOverPreferences): Check[] {
  const open = new Map<string, number>()
  for (const { by } of counted) for (const group of by.pair?.groups ?? []) open.set(group.name, (open.get(group.name) ?? 0) + group.count)
  return [...open].flatMap(([pair, passes]) => {
    const names = parsePairKey(pair)
    const limit = names && maxOpen(policy, names)
    if (!names || limit === undefined || passes < limit * NEAR_LIMIT_SHARE) return []
    const are = `${count(passes, 'pass', 'passes')} from ${names.from} to ${names.to} ${passes === 1 ? 'is' : 'are'} open`
    const text = `${are}; at most ${limit} may be (max_open), and beyond that they are refused`
    const mend = `passover cancel --from ${names.from} --to ${names.to} --all ends them, passover policy set max_open <n> --pair '${pair}' allows more`
    return [warning('queue', text, mend)]
  })
}

/** Undefined: the pair is bound by a limit of its own. */
function maxOpen(policy: PassOverPreferences, names: { from: string; to: string }): number | undefined {
  const resolved = resolvePolicy(policy, names)
  if (!resolved.ok || resolved.value.limits?.pair.max_active !== undefined) return undefined
  return resolved.value.effective.max_open ?? SYSTEM_DEFAULTS.max_open
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
