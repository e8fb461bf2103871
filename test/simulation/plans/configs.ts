import { APPROVAL_MS } from '../actors/caller-answers.js'
import { below, type Change, held, many, plain, stopWorkers, troubles } from './config-parts.js'
import { DELETED } from './configs-deleted.js'
import { BESIDES, OF_THE_MODEL } from './configs-model.js'
import { Dice } from './dice.js'
import { type FaultPlan, makePlan, type PassPlan, type Plan } from './plan.js'

const attempts: Change = ({ passes }, dice) => {
  const own = passes.map((pass) => ({ ...plain(pass, dice), ms: dice.between(1_000, 4_500) }))
  return { workers: 2, clustered: false, passes: own, faults: stopWorkers(own, dice) }
}

/** The model's configurations: what each mutant needs, without much besides. A fault of another kind may come along. */
const CHANGES: Record<string, Change> = {
  ...OF_THE_MODEL,
  ...DELETED,
  ...BESIDES,
  attempts,
  /** How a worker knows its own fence: each of these is a mutant, or a variant that must hold. */
  own_by_process: ({ passes }, dice) => {
    const own = passes.slice(0, 2).map((pass) => ({ ...plain(pass, dice), ms: 8_000, timeout_ms: 12_000 }))
    // All deliveries of a pass come to one process, which is stopped when it gets the first and when it runs the second.
    const stop = ({ at, to }: PassPlan): FaultPlan[] => [
      { kind: 'stop', at: Math.max(50, at - dice.between(0, 20)), who: `${to}-0`, ms: dice.between(1_200, 1_800) },
      { kind: 'stop', at: at + dice.between(1_900, 2_300), who: `${to}-0`, ms: dice.between(1_200, 1_800) },
    ]
    return { workers: 1, clustered: false, passes: own, faults: troubles(own, stop) }
  },
  /** Attempts are lost, replicas lag, and the server stores messages that do not count behind the fences. */
  bounced: ({ passes }, dice) => {
    const own = passes.slice(0, 3).map((pass) => ({ ...plain(pass, dice), does: 'kills' as const, timeout_ms: 9_000 }))
    const bounce =
      (from: number) =>
      (_: unknown, n: number): FaultPlan => {
        return { kind: 'bounce', at: from + 200 * n + dice.between(0, 200), under: 'held', bare: dice.hits(0.5) }
      }
    const bounces = ({ at }: PassPlan): FaultPlan[] => Array.from({ length: 4 }, bounce(at + dice.between(200, 4_000)))
    return { workers: 2, clustered: true, lag: 0.5, evil: [], passes: own, faults: troubles(own, bounces) }
  },
  own_by_agent: attempts,
  own_never: attempts,
  attempts_unknown: ({ passes }, dice) => {
    const own = passes.map((pass) => plain(pass, dice))
    const storm: FaultPlan = { kind: 'storm', at: 100, ms: 9_000, loss: 0.2, late: 0.2, late_ms: 2_500 }
    return { workers: 2, clustered: true, passes: own, faults: [storm, ...stopWorkers(own, dice)] }
  },
  /** Returned in the moment in which it ends otherwise. */
  ended_late: ({ passes }, dice) => {
    const own = many(passes, 10).map((pass) => ({ ...plain(pass, dice), timeout_ms: Math.round(dice.between(800, 2_500)), ms: 2_500 }))
    const storm: FaultPlan = { kind: 'storm', at: 100, ms: 10_000, loss: 0, late: 0.5, late_ms: 800 }
    return { workers: 2, clustered: true, passes: own, faults: [storm] }
  },
  counts_lost: ({ passes }, dice) => {
    const own = passes.map((pass) => ({ ...plain(pass, dice), ms: 2_500 }))
    const restart = (pass: PassPlan): FaultPlan[] => [
      { kind: 'restart', at: pass.at + dice.between(50, 1_200), down_ms: dice.between(20, 300), forget_ms: 5_000 },
    ]
    return { workers: 2, clustered: false, passes: own, faults: troubles(own.slice(0, 3), restart) }
  },
  recreated: ({ passes }, dice) => {
    // It is made anew some seconds later, and must find them at work.
    const own = passes.map((pass) => ({ ...plain(pass, dice), ms: 12_000, timeout_ms: 15_000 }))
    const remove = (pass: PassPlan): FaultPlan[] => [{ kind: 'remove', at: pass.at + 100, consumer: `work_${pass.to}_medium` }]
    return { workers: 2, dispatchers: 1, clustered: false, passes: own, faults: troubles(own, remove) }
  },
  admission: ({ passes }, dice) => {
    const own = passes.map((pass) => ({ ...plain(pass, dice), again: [{ after: dice.between(0, 400), same: true }] }))
    const hurt = (pass: PassPlan): FaultPlan[] => [
      { kind: 'stop', at: Math.max(50, pass.at - 20), who: `dispatcher-${dice.whole(0, 1)}`, ms: dice.between(100, 6_500) },
      { kind: 'storm', at: pass.at, ms: 1_500, loss: 0.3, late: 0.4, late_ms: 1_500 },
    ]
    return { narrow: false, dispatchers: 2, clustered: true, passes: own, faults: troubles(own, hurt) }
  },
  /** Many at once, more than are taken in turn: half of them go out of it, and some of those are not stored. */
  crowded: ({ passes }, dice) => {
    const own = many(passes, 20).map((pass, n) => ({
      ...plain(pass, dice),
      from: n < 12 ? 'alice' : 'bob',
      at: 1_000 + 5 * n,
      timeout_ms: 12_000,
    }))
    const storm: FaultPlan = { kind: 'storm', at: 1_000, ms: 4_000, loss: 0.3, late: 0.3, late_ms: 1_500 }
    return { narrow: true, dispatchers: dice.pick([1, 2]), clustered: true, passes: own, faults: [storm], until: 50_000 }
  },
  admission_unknown: ({ passes }, dice) => {
    const own = many(passes, 20).map((pass) => plain(pass, dice))
    const storm: FaultPlan = { kind: 'storm', at: 100, ms: 15_000, loss: 0.3, late: 0, late_ms: 0 }
    return { dispatchers: 1, clustered: true, passes: own, faults: [storm] }
  },
  hold: ({ passes }, dice) => ({ clustered: false, passes: held(passes, dice), faults: [] }),
  /** Ended where it stays unknown whether that was stored, and a replica shows less than there is. */
  ended_unknown: ({ passes }, dice) => {
    const own = passes.slice(0, 2).map((pass) => ({ ...plain(pass, dice), does: 'hangs' as const, timeout_ms: 1_000, ms: 0 }))
    const storm = ({ at }: PassPlan): FaultPlan[] => [{ kind: 'storm', at: at + 900, ms: 1_200, loss: 0.7, late: 0, late_ms: 0 }]
    return { clustered: true, lag: 1, dispatchers: 1, passes: own, faults: troubles(own, storm), until: 50_000 }
  },
  child: ({ passes }, dice) => {
    const own = passes.map((pass) => ({ ...plain(pass, dice), ms: 1_000, children: below(pass, dice), cancel: dice.between(200, 4_000) }))
    return { workers: 2, clustered: false, passes: own, faults: stopWorkers(own.slice(0, 2), dice) }
  },
  /** Cancelled, and at work whatever its signal says. */
  cancelled: ({ passes }, dice) => ({
    clustered: false,
    faults: [],
    passes: passes.map((pass) => ({ ...plain(pass, dice), does: 'stubborn', ms: 20_000, cancel: dice.between(100, 1_500) })),
  }),
  /** A child that works on for longer than an attempt of its parent lives, and one that is asked for when it is over. */
  child_attempts: ({ passes }, dice) => {
    const own = passes.map((pass) => {
      const [child] = below({ ...pass, name: pass.name }, dice)
      const long = child && { ...child, ms: 20_000, timeout_ms: 14_000 }
      const children = long ? [long, { ...long, name: `${pass.name}.1`, at: dice.between(300, 2_000), ms: 300 }] : []
      return { ...plain(pass, dice), ms: 6_000, timeout_ms: 15_000, children }
    })
    const stop = (pass: PassPlan): FaultPlan[] =>
      [0, 1].map((n) => ({ kind: 'stop', at: pass.at + dice.between(100, 300), who: `${pass.to}-${n}`, ms: [900, 3_500][n] ?? 0 }))
    return { workers: 2, clustered: false, passes: own, faults: troubles(own, stop), until: 40_000 }
  },
  again: ({ passes }, dice) => {
    const own = passes.map((pass) => ({
      ...plain(pass, dice),
      given: true,
      again: [{ after: dice.between(1, 3_000), same: dice.hits(0.3) }],
    }))
    return { workers: 2, clustered: true, passes: own, faults: stopWorkers(own, dice) }
  },
  /** Asked again with another request, where what is read may lack any step. */
  again_lagging: ({ passes }, dice) => {
    const again = (): PassPlan['again'] => Array.from({ length: 6 }, () => ({ after: dice.between(100, 3_000), same: false }))
    const own = passes.map((pass) => ({ ...plain(pass, dice), ms: dice.between(0, 600), given: true, again: again() }))
    return { workers: 2, clustered: true, lag: 0.5, passes: own, faults: [] }
  },
  /** Approved in the moment in which the approval expires. */
  approved_late: ({ passes }, dice) => {
    const own = many(passes, 20).map((pass) => {
      const hold = { after: APPROVAL_MS - dice.between(100, 1_500), verdict: 'approve', digest: 'right' } as const
      return { ...plain(pass, dice), timeout_ms: 9_000, ms: 12_000, hold }
    })
    const storm: FaultPlan = { kind: 'storm', at: 5_500, ms: 9_000, loss: 0, late: 0.6, late_ms: 400 }
    return { clustered: true, dispatchers: 1, passes: own, faults: [storm], until: 40_000 }
  },
  /** Decided within the id's window, and stored after it. */
  late: ({ passes }, dice) => {
    const own = many(passes, 10).map((pass, n) => ({ ...plain(pass, dice), at: 500 + 60 * n, timeout_ms: 15_000, ms: 100 }))
    const stop: FaultPlan = { kind: 'stop', at: 300, who: 'dispatcher-0', ms: dice.between(8_900, 9_400) }
    const storm: FaultPlan = { kind: 'storm', at: 8_800, ms: 2_500, loss: 0, late: 0.6, late_ms: 800 }
    return { clustered: true, dispatchers: 1, id_window_ms: 9_000, passes: own, faults: [stop, storm], until: 50_000 }
  },
  /** Requests lie where no dispatcher gets them. */
  mute: ({ passes }, dice) => {
    const own = passes.map((pass) => plain(pass, dice))
    const mute: FaultPlan = { kind: 'mute', at: dice.between(100, 3_000), consumer: 'dispatcher', ms: 20_000 }
    return { narrow: false, clustered: false, passes: own, faults: [mute], evil: [], until: 40_000 }
  },
  /** A worker wakes when its pass is over, and nobody has ended it. */
  overdue: ({ passes }, dice) => {
    const own = passes.map((pass) => ({ ...plain(pass, dice), timeout_ms: 3_000, ms: 100 }))
    const stop = ({ at, to }: PassPlan): FaultPlan[] => [
      ...['dispatcher-0', 'keeper'].map((who) => ({ kind: 'stop' as const, at: at + 1_000, who, ms: 7_000 })),
      ...[0, 1].map((n) => ({ kind: 'stop' as const, at: Math.max(50, at - 5), who: `${to}-${n}`, ms: 3_500 })),
    ]
    return { workers: 2, dispatchers: 1, clustered: false, passes: own, faults: troubles(own, stop) }
  },
  dishonest: ({ passes }, dice) => ({
    passes: passes.map((pass) => plain(pass, dice)),
    evil: passes.map(({ at }) => at + dice.between(20, 1_000)),
  }),
  /** A child that passes to whom its ancestors wait for. */
  loops: ({ passes }, dice) => ({
    clustered: false,
    faults: [],
    passes: passes.map((pass) => {
      const [child] = below(pass, dice)
      const back = child && { ...child, ms: 200, children: [{ ...child, name: `${pass.name}.0.0`, from: child.to, to: pass.to, ms: 100 }] }
      return { ...plain(pass, dice), ms: 300, children: back ? [back] : [] }
    }),
  }),
  chains: ({ passes }, dice) => ({
    clustered: false,
    faults: [],
    passes: passes.map((pass) => {
      const [child] = below(pass, dice)
      const loop = child && { ...child, ms: 200, children: [{ ...child, name: `${pass.name}.0.0`, from: child.to, to: pass.to, ms: 100 }] }
      return { ...plain(pass, dice), ms: 300, budget: 1, children: loop ? [loop, { ...loop, name: `${pass.name}.1`, children: [] }] : [] }
    }),
  }),
}

export const CONFIGS = Object.keys(CHANGES)

/** The plan of a seed, in a configuration where one is named. */
export function planOf(seed: number, config?: string): Plan {
  const plan = makePlan(seed)
  const change = config === undefined ? undefined : CHANGES[config]
  if (config !== undefined && !change) throw new Error(`no configuration is called ${config}`)
  if (!change) return plan
  const changed = { ...plan, policies: [], ...change(plan, new Dice(seed, config)) }
  return changed.deletes ? { ...changed, segment: undefined } : changed
}
