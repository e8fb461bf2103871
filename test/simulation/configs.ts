import { Dice } from './dice.js'
import { type FaultPlan, makePlan, type PassPlan, type Plan } from './plan.js'

type Change = (plan: Plan, dice: Dice) => Partial<Plan>

/** Of a pass nothing but that it runs for a while and returns. */
function plain(pass: PassPlan, dice: Dice): PassPlan {
  const { name, at, from, to } = pass
  const ms = Math.round(dice.between(200, 2_500))
  return { name, at, from, to, timeout_ms: 6_000, given: false, does: 'returns', ms, children: [], again: [] }
}

function workerOf(pass: PassPlan, dice: Dice): string {
  return `${pass.to}-${dice.whole(0, 1)}`
}

/** For each pass some trouble while it is under way. */
function troubles(passes: PassPlan[], make: (pass: PassPlan) => FaultPlan[]): FaultPlan[] {
  return passes.flatMap(make).sort((a, b) => a.at - b.at)
}

function stopWorkers(passes: PassPlan[], dice: Dice): FaultPlan[] {
  return troubles(passes, (pass) => [
    { kind: 'stop', at: Math.max(50, pass.at - dice.between(0, 40)), who: workerOf(pass, dice), ms: dice.between(2_200, 4_000) },
    { kind: 'stop', at: pass.at + dice.between(20, 1_500), who: workerOf(pass, dice), ms: dice.between(1_100, 3_000) },
  ])
}

const held = (passes: PassPlan[], dice: Dice): PassPlan[] =>
  passes.map((pass) => ({
    ...plain(pass, dice),
    hold: {
      after: dice.between(1, 2_000),
      verdict: dice.pick(['approve', 'deny', 'nobody'] as const),
      digest: dice.pick(['right', 'wrong'] as const),
    },
  }))

const below = (pass: PassPlan, dice: Dice): PassPlan[] => {
  const to = pass.to === 'audit' ? 'scout' : 'audit'
  const child = { ...plain(pass, dice), name: `${pass.name}.0`, at: 0, from: pass.to, to, ms: 4_000 }
  return [child, { ...child, name: `${pass.name}.1`, ms: 300 }]
}

/** The model's configurations: what each mutant needs, without much besides. A fault of another kind may come along. */
const CHANGES: Record<string, Change> = {
  attempts: ({ passes }, dice) => {
    const own = passes.map((pass) => ({ ...plain(pass, dice), ms: dice.between(1_000, 4_500) }))
    return { workers: 2, clustered: false, passes: own, faults: stopWorkers(own, dice) }
  },
  attempts_unknown: ({ passes }, dice) => {
    const own = passes.map((pass) => plain(pass, dice))
    const storm: FaultPlan = { kind: 'storm', at: 100, ms: 9_000, loss: 0.2, late: 0.2, late_ms: 2_500 }
    return { workers: 2, clustered: true, passes: own, faults: [storm, ...stopWorkers(own, dice)] }
  },
  counts_lost: ({ passes }, dice) => {
    const own = passes.map((pass) => ({ ...plain(pass, dice), ms: 2_500 }))
    const restart = (pass: PassPlan): FaultPlan[] => [
      { kind: 'restart', at: pass.at + dice.between(50, 1_200), down_ms: dice.between(20, 300), forget_ms: 5_000 },
    ]
    return { workers: 2, clustered: false, passes: own, faults: troubles(own.slice(0, 3), restart) }
  },
  recreated: ({ passes }, dice) => {
    const own = passes.map((pass) => ({ ...plain(pass, dice), ms: 5_000 }))
    const remove = (pass: PassPlan): FaultPlan[] => [{ kind: 'remove', at: pass.at + 100, consumer: `work_${pass.to}_medium` }]
    return { workers: 2, dispatchers: 1, clustered: false, passes: own, faults: troubles(own, remove) }
  },
  admission: ({ passes }, dice) => {
    const own = passes.map((pass) => ({ ...plain(pass, dice), again: [{ after: dice.between(0, 400), same: true }] }))
    const hurt = (pass: PassPlan): FaultPlan[] => [
      { kind: 'stop', at: Math.max(50, pass.at - 20), who: `dispatcher-${dice.whole(0, 1)}`, ms: dice.between(100, 6_500) },
      { kind: 'storm', at: pass.at, ms: 1_500, loss: 0.3, late: 0.4, late_ms: 1_500 },
    ]
    return { dispatchers: 2, clustered: true, passes: own, faults: troubles(own, hurt) }
  },
  hold: ({ passes }, dice) => ({ clustered: false, passes: held(passes, dice), faults: [] }),
  child: ({ passes }, dice) => {
    const own = passes.map((pass) => ({ ...plain(pass, dice), ms: 1_000, children: below(pass, dice), cancel: dice.between(200, 4_000) }))
    return { workers: 2, clustered: false, passes: own, faults: stopWorkers(own.slice(0, 2), dice) }
  },
  again: ({ passes }, dice) => {
    const own = passes.map((pass) => ({
      ...plain(pass, dice),
      given: true,
      again: [{ after: dice.between(1, 3_000), same: dice.hits(0.3) }],
    }))
    return { workers: 2, clustered: true, passes: own, faults: stopWorkers(own, dice) }
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
    return { deletes: true, id_window_ms: 9_000, until: 62_000, calm_at: 30_000, passes: own, faults: troubles(own, die) }
  },
  stalled: ({ passes }, dice) => {
    const own = passes.map((pass) => ({ ...plain(pass, dice), ms: 50 }))
    const stop = (pass: PassPlan): FaultPlan[] => [
      { kind: 'stop', at: Math.max(50, pass.at - 5), who: 'dispatcher-0', ms: dice.between(8_000, 14_000) },
    ]
    return { dispatchers: 1, deletes: true, id_window_ms: 9_000, until: 62_000, calm_at: 24_000, passes: own, faults: troubles(own, stop) }
  },
  dishonest: ({ passes }, dice) => ({
    passes: passes.map((pass) => plain(pass, dice)),
    evil: passes.map(({ at }) => at + dice.between(20, 1_000)),
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
  return change ? { ...plan, ...change(plan, new Dice(seed, config)) } : plan
}
