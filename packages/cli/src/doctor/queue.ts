import type { Bus } from '@passover/bus'
import { resolvePolicy, SYSTEM_DEFAULTS } from '@passover/core'
import { askStats } from '@passover/operator'
import { type PassOverPreferences, parsePairKey, type StatsAnswer } from '@passover/schemas'
import { duration } from '../terminal/duration.js'
import { count } from '../terminal/text.js'
import { type Check, ifAnswered, warning } from './check.js'

/** Minimum number of queued passes for the check of a queue. */
export const BACKLOG_THRESHOLD = 100
/** Passes that were asked for longer ago than this count as delayed. */
const DELAY_THRESHOLD_MS = 60_000
const DELAYED_SHARE = 0.75
/** Share of its limit of open passes from which a pair is reported, before its passes are refused. */
const NEAR_LIMIT_SHARE = 0.9

type Stats = Pick<Extract<StatsAnswer, { ok: true }>, 'passes' | 'by'>

/** Asks the audit service for delayed passes. Returns no check if it does not answer in time. */
export async function inspectQueue(bus: Bus, subagent: string): Promise<Check[]> {
  const delayed = await ifAnswered(askStats(bus, { subagent, status: 'waiting_for_return', to: bus.now() - DELAY_THRESHOLD_MS }))
  return delayed ? checkQueue(subagent, delayed) : []
}

/**
 * Asks the audit service how many passes of each pair are open, including held ones. Returns no check if it does not answer in time.
 *
 * @param open - number of open passes to the subagent; the audit service is not asked if they are too few for any pair to be near its limit
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
  const counted = await ifAnswered(
    Promise.all([askStats(bus, { subagent, status: 'held' }), askStats(bus, { subagent, status: 'waiting_for_return' })]),
  )
  return counted ? checkOpenPasses(counted, policy) : []
}

/** Reports each pair whose open passes are near or above `max_open`. Skips pairs with a `max_active` of their own, which limits them instead. */
export function checkOpenPasses(counted: readonly Stats[], policy: PassOverPreferences): Check[] {
  const open = new Map<string, number>()
  for (const { by } of counted) for (const group of by.pair?.groups ?? []) open.set(group.name, (open.get(group.name) ?? 0) + group.count)
  return [...open].flatMap(([pair, passes]) => {
    const names = parsePairKey(pair)
    const limit = names && maxOpen(policy, names)
    if (!names || limit === undefined || passes < limit * NEAR_LIMIT_SHARE) return []
    const are = `${count(passes, 'pass', 'passes')} from ${names.from} to ${names.to} ${passes === 1 ? 'is' : 'are'} open`
    const text = `${are}; the limit is ${limit} (max_open), and more are refused`
    const mend = `passover cancel --from ${names.from} --to ${names.to} --all cancels them, passover policy set max_open <n> --pair '${pair}' raises the limit`
    return [warning('queue', text, mend)]
  })
}

/** Returns the `max_open` of a pair, or `undefined` if its policy does not resolve or its own `max_active` limits it instead. */
function maxOpen(policy: PassOverPreferences, names: { from: string; to: string }): number | undefined {
  const resolved = resolvePolicy(policy, names)
  if (!resolved.ok || resolved.value.limits?.pair.max_active !== undefined) return undefined
  return resolved.value.effective.max_open ?? SYSTEM_DEFAULTS.max_open
}

/**
 * Reports the originator of most of a subagent's delayed work. The queue is first come, first served, so all others wait behind it.
 *
 * @param delayed - the subagent's open passes that were requested more than `DELAY_THRESHOLD_MS` ago
 */
export function checkQueue(subagent: string, delayed: Stats): Check[] {
  const [most] = delayed.by.pair?.groups ?? []
  if (!most || most.count < BACKLOG_THRESHOLD || most.count < delayed.passes * DELAYED_SHARE) return []
  const [originator] = most.name.split('->')
  const text = `${most.count} of ${delayed.passes} open passes to ${subagent} that were requested more than ${duration(DELAY_THRESHOLD_MS)} ago are from ${originator}; passes from other agents wait behind them`
  return [
    warning(
      'queue',
      text,
      `passover policy set max_active <n> --pair '${most.name}' limits them, and more workers shorten the queue (docs/operations/quotas.md)`,
    ),
  ]
}
