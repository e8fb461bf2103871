import { below, type Change, held, many, plain, troubles, workerOf } from './config-parts.js'
import type { FaultPlan, PassPlan } from './plan.js'

/** Long enough for passes to be deleted, and asked for again. */
const OLD = { deletes: true, id_window_ms: 9_000, until: 62_000, calm_at: 30_000 }
/** When passes of the first seconds go. */
const GONE_MS = 20_000

/** Configurations in which passes are deleted. */
export const DELETED: Record<string, Change> = {
  /** A worker that was given work wakes when the pass is deleted. */
  deleted_attempts: ({ passes }, dice) => {
    // Gone before its deadline would have passed.
    const own = many(passes, 8).map((pass, n) => ({ ...plain(pass, dice), at: 500 + 1_500 * n, ms: 100, timeout_ms: 60_000, cancel: 500 }))
    const stop = ({ at, to }: PassPlan): FaultPlan[] => [
      ...[0, 1].map((n) => ({ kind: 'stop' as const, at: Math.max(50, at - 5), who: `${to}-${n}`, ms: dice.between(34_000, 40_000) })),
      // It does not hear that it ended.
      { kind: 'storm', at: at + 498, ms: 300, loss: 0.6, late: 0, late_ms: 0 },
    ]
    return { ...OLD, workers: 2, clustered: true, lag: 0.5, lag_by: 60, calm_at: 50_000, passes: own, faults: troubles(own, stop) }
  },
  deleted: ({ passes }, dice) => {
    const own = passes.map((pass) => ({
      ...plain(pass, dice),
      ms: 100,
      given: dice.hits(0.4),
      again: [8_000, 17_500, 19_000, 22_000].map((after) => ({ after: after + dice.between(0, 2_500), same: true })),
    }))
    const die = (pass: PassPlan): FaultPlan[] => [
      { kind: 'die', at: pass.at + 18_000, who: 'reaper', n: dice.whole(1, 9), back_ms: 500 },
      { kind: 'stop', at: pass.at + dice.between(18_000, 21_000), who: workerOf(pass, dice), ms: dice.between(500, 4_000) },
    ]
    return { ...OLD, passes: own, faults: troubles(own, die) }
  },
  stalled: ({ passes }, dice) => {
    const own = passes.map((pass) => ({ ...plain(pass, dice), ms: 50 }))
    const stop = (pass: PassPlan): FaultPlan[] => [
      { kind: 'stop', at: Math.max(50, pass.at - 5), who: 'dispatcher-0', ms: dice.between(8_000, 14_000) },
    ]
    return { ...OLD, dispatchers: 1, calm_at: 24_000, passes: own, faults: troubles(own, stop) }
  },
  /** Decided about by one dispatcher, and stored when another one has done it, and the pass is gone. */
  deleted_dispatchers: ({ passes }, dice) => {
    const own = passes.map((pass) => ({ ...plain(pass, dice), ms: 100 }))
    const hurt = ({ at }: PassPlan): FaultPlan[] => [
      { kind: 'stop', at: Math.max(50, at - dice.between(0, 6)), who: `dispatcher-${dice.whole(0, 1)}`, ms: dice.between(100, 24_000) },
      { kind: 'storm', at: at - 2, ms: 30, loss: 0.3, late: 0.3, late_ms: 8_000 },
    ]
    return { ...OLD, dispatchers: 2, clustered: true, passes: own, faults: troubles(own, hurt) }
  },
  /** Asked again, with the same and with another request, before and after it is gone; a timekeeper knows nothing of it. */
  deleted_again: ({ passes }, dice) => {
    const again = () => [8_000, 19_000, 22_000, 28_000].map((after) => ({ after: after + dice.between(0, 2_500), same: dice.hits(0.5) }))
    const own = passes.map((pass) => ({ ...plain(pass, dice), ms: 100, again: again() }))
    const scratch = ({ at }: PassPlan): FaultPlan[] => [
      { kind: 'scratch', at: at + GONE_MS + dice.between(-3_000, 9_000), who: 'dispatcher-0' },
    ]
    return { ...OLD, passes: own, faults: troubles(own, scratch) }
  },
  /** All requests, and all work, come again when they are gone. */
  deleted_recreated: ({ passes }, dice) => {
    const own = passes.map((pass) => ({ ...plain(pass, dice), ms: 100 }))
    const remove = ({ at, to }: PassPlan): FaultPlan[] => [
      { kind: 'remove', at: at + dice.between(10_000, 24_000), consumer: dice.pick(['dispatcher', `work_${to}_medium`]) },
      { kind: 'die', at: at + dice.between(16_000, 24_000), who: `dispatcher-${dice.whole(0, 1)}`, n: dice.whole(0, 12), back_ms: 500 },
    ]
    return { ...OLD, dispatchers: 2, calm_at: 35_000, passes: own, faults: troubles(own, remove) }
  },
  /** What a worker that fences without end leaves is deleted too. */
  deleted_starve: ({ passes }, dice) => {
    const own = passes.slice(0, 1).map((pass) => ({ ...plain(pass, dice), does: 'hangs' as const, timeout_ms: 2_000 }))
    const evil = own.flatMap(({ at, timeout_ms }) => Array.from({ length: 60 }, (_, n) => at + timeout_ms - 10 + 1.5 * n))
    const die = ({ at }: PassPlan): FaultPlan[] => [{ kind: 'die', at: at + GONE_MS, who: 'reaper', n: dice.whole(1, 30), back_ms: 500 }]
    return { ...OLD, clustered: true, dispatchers: 3, passes: own, faults: troubles(own, die), evil, evil_kinds: ['fence'] }
  },
  /** Steps that no honest worker stores, while it runs and while it is deleted. */
  deleted_dishonest: ({ passes }, dice) => ({
    ...OLD,
    passes: passes.map((pass) => ({ ...plain(pass, dice), ms: 500 })),
    evil: passes.flatMap(({ at }) => [at + dice.between(20, 1_000), at + GONE_MS + dice.between(-2_000, 4_000)]),
  }),
  /** Ids without a time: remembered for two windows, and then another pass's. */
  deleted_untimed: ({ passes }, dice) => {
    const again = () => [8_000, 17_500, 22_000, 27_000].map((after) => ({ after: after + dice.between(0, 2_500), same: dice.hits(0.6) }))
    // Of what failed the audit remembers more than of what came back.
    const own = passes.map((pass) => ({ ...plain(pass, dice), does: 'throws' as const, ms: 100, given: true, again: again() }))
    const die = ({ at, to }: PassPlan): FaultPlan[] => [
      { kind: 'die', at: at + 18_500, who: 'reaper', n: dice.whole(1, 9), back_ms: 500 },
      { kind: 'stop', at: at + dice.between(18_000, 23_000), who: `${to}-0`, ms: dice.between(500, 4_000) },
    ]
    return { ...OLD, workers: 2, passes: own, faults: troubles(own, die) }
  },
  /** The audit itself deletes, out of sealed segments, and dies at it: passes with children, held ones, and such as are asked for again. */
  retention: ({ passes }, dice) => {
    const asked = [...held(passes.slice(0, 2), dice), ...passes.slice(2)].map((pass) => ({
      ...pass,
      at: dice.between(300, 5_000),
      children: dice.hits(0.5) ? below(pass, dice).map((child) => ({ ...child, ms: 500 })) : [],
      again: [8_000, 17_500, 21_000].map((after) => ({ after: after + dice.between(0, 2_500), same: dice.hits(0.7) })),
    }))
    // One is open for longer than two windows, of others something is told when they are long over.
    const [one, ...others] = many(passes, 4).map((pass, n) => ({ ...plain(pass, dice), name: `q${n}`, at: dice.between(300, 5_000) }))
    const late = others.map((pass) => ({ ...pass, does: 'stubborn' as const, timeout_ms: 3_000, ms: 16_000 }))
    const own = [...asked, ...late, ...(one ? [{ ...one, does: 'hangs' as const, timeout_ms: 40_000 }] : [])]
    const die = ({ at }: PassPlan): FaultPlan[] => [
      { kind: 'die', at: at + dice.between(200, 3_000), who: 'keeper', n: dice.whole(0, 20), back_ms: 500 },
      { kind: 'die', at: at + GONE_MS + dice.between(-2_000, 8_000), who: 'keeper', n: dice.whole(0, 40), back_ms: 500 },
    ]
    const segment = dice.pick([5, 8, 12])
    return { ...OLD, deletes: false, segment, clustered: false, passes: own, faults: troubles(asked, die), calm_at: 35_000 }
  },
  /** Returns wait for an originator that is away for longer than they may: the passes that it has go before the others. */
  undelivered: ({ passes }, dice) => {
    const own = passes.map((pass) => ({ ...plain(pass, dice), ms: 1_500 }))
    const away: FaultPlan = { kind: 'stop', at: dice.between(2_000, 5_000), who: 'alice', ms: dice.between(28_000, 40_000) }
    const durable = ['alice', 'bob']
    return { ...OLD, deletes: false, segment: 6, durable, clustered: false, passes: own, faults: [away], calm_at: 46_000 }
  },
}
