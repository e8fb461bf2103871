import { APPROVAL_MS } from '../actors/caller-answers.js'
import { below, type Change, held, many, plain, stopWorkers, troubles, workerOf } from './config-parts.js'
import { decision, type FaultPlan, type PassPlan, spoilt } from './plan.js'

/** What the model has besides what mutants need, by its names there. */
export const OF_THE_MODEL: Record<string, Change> = {
  /** Dispatchers die at it; every other pass goes to nobody and is refused. */
  admission_crash: ({ passes }, dice) => {
    const own = many(passes, 8).map((pass, n) => ({ ...plain(pass, dice), ms: 200, to: n % 2 === 0 ? pass.to : 'nobody' }))
    const die = (pass: PassPlan): FaultPlan[] => [
      { kind: 'die', at: Math.max(50, pass.at - 30), who: `dispatcher-${dice.whole(0, 1)}`, n: dice.whole(1, 12), back_ms: 500 },
      { kind: 'storm', at: pass.at, ms: 200, loss: 0.3, late: 0.2, late_ms: 500 },
    ]
    return { narrow: false, dispatchers: 2, clustered: true, passes: own, faults: troubles(own, die) }
  },
  /** Both end the same, and one of them begins from nothing. */
  two_keepers: ({ passes }, dice) => {
    const own = passes.map((pass, n) => ({
      ...plain(pass, dice),
      does: 'hangs' as const,
      timeout_ms: 2_500,
      ...(n % 2 === 0 && { cancel: dice.between(200, 2_600) }),
    }))
    const hurt = ({ at }: PassPlan): FaultPlan[] => [
      { kind: 'scratch', at: at + dice.between(500, 2_600), who: `dispatcher-${dice.whole(0, 1)}` },
      { kind: 'storm', at: at + 2_400, ms: 400, loss: 0.3, late: 0.3, late_ms: 600 },
    ]
    return { dispatchers: 2, clustered: true, passes: own, faults: troubles(own, hurt) }
  },
  /** Each attempt of a parent asks for a child that a person must let through. */
  child_hold: ({ passes }, dice) => {
    const own = passes.map((pass) => ({
      ...plain(pass, dice),
      ms: 4_000,
      timeout_ms: 9_000,
      children: held(below(pass, dice), dice).map((child) => ({ ...child, ms: 500 })),
    }))
    const die = (pass: PassPlan): FaultPlan[] => [
      { kind: 'die', at: pass.at + dice.between(20, 1_500), who: workerOf(pass, dice), n: dice.whole(0, 12), back_ms: 500 },
    ]
    return { workers: 2, clustered: false, passes: own, faults: [...troubles(own, die), ...stopWorkers(own.slice(0, 1), dice)] }
  },
  /** Cancelled with a child at work, by a timekeeper that begins from nothing. */
  child_cancel: ({ passes }, dice) => {
    const own = passes.map((pass) => ({ ...plain(pass, dice), ms: 5_000, children: below(pass, dice), cancel: dice.between(300, 3_000) }))
    const scratch = ({ at }: PassPlan): FaultPlan[] => [{ kind: 'scratch', at: at + dice.between(200, 3_000), who: 'dispatcher-0' }]
    return { workers: 1, dispatchers: 1, clustered: false, passes: own, faults: troubles(own, scratch) }
  },
  /** Held, and asked again with the same and with another request before and after a person has decided. */
  again_hold: ({ passes }, dice) => {
    const again = () => Array.from({ length: 3 }, () => ({ after: dice.between(1, APPROVAL_MS), same: dice.hits(0.5) }))
    const own = held(passes, dice).map((pass) => ({ ...pass, given: dice.hits(0.5), again: again() }))
    return { clustered: true, lag: 0.3, passes: own, faults: [] }
  },
  /** A worker that fences faster than what timekeepers say is stored: they guard on their own returns alone, and one of them counts. */
  starve: ({ passes }, dice) => {
    const own = passes.slice(0, 1).map((pass) => ({ ...plain(pass, dice), does: 'hangs' as const, timeout_ms: 2_000 }))
    const evil = own.flatMap(({ at, timeout_ms }) => Array.from({ length: 200 }, (_, n) => at + timeout_ms - 10 + 8 * n))
    const slow = troubles(own, ({ at }) => [{ kind: 'slow', at: at + 1_900, ms: 4_000, store_ms: dice.between(80, 200) }])
    return { clustered: true, dispatchers: 5, passes: own, faults: slow, evil, evil_kinds: ['fence'] }
  },
}

/** What the model leaves out. */
export const BESIDES: Record<string, Change> = {
  /** Some end the process that runs them, and others run beside them at the same agent. */
  poison: ({ passes }, dice) => {
    const [one] = passes
    const own = many(passes, 8).map((pass, n) => ({
      ...plain(pass, dice),
      to: one?.to ?? pass.to,
      at: 1_000 + 3 * n,
      ms: dice.between(100, 500),
      timeout_ms: 60_000,
      does: n % 4 === 1 ? ('kills' as const) : ('returns' as const),
    }))
    return { workers: dice.pick([1, 2]), clustered: false, passes: own, faults: [], evil: [], until: 70_000 }
  },
  /** What comes back half done waits for a person, while the audit, which tells what was decided, dies now and then. */
  release: ({ passes }, dice) => {
    const own = many(passes, 8).map((pass) => ({ ...plain(pass, dice), does: 'half' as const, ms: 200, release: decision(dice) }))
    const die = ({ at }: PassPlan): FaultPlan[] => [
      { kind: 'die', at: at + dice.between(0, 5_000), who: 'keeper', n: dice.whole(0, 20), back_ms: 500 },
      { kind: 'cut', at: at + dice.between(0, 5_000), who: dice.pick(['alice', 'bob']), ms: dice.between(50, 2_000) },
    ]
    return { clustered: false, passes: own, faults: troubles(own.slice(0, 3), die) }
  },
  /**
   * The audit is killed again and again while passes are held, cancelled and run out of time. It reads its passes again in several pieces, and its
   * records of before stand in the bucket already.
   */
  audit_killed: ({ passes }, dice) => {
    const own = many(passes, 14).map((pass, n): PassPlan => {
      const one = { ...plain(pass, dice), at: dice.between(300, 14_000), ms: dice.between(200, 7_000) }
      const cancel = n % 3 === 0 ? { cancel: dice.between(500, 6_000) } : {}
      const hold = n % 3 === 1 ? { hold: decision(dice) } : {}
      const ends =
        n % 4 === 2 ? { does: dice.pick(['hangs', 'stubborn', 'half'] as const), timeout_ms: 4_500, release: decision(dice) } : {}
      return { ...one, ...cancel, ...hold, ...ends }
    })
    const keepers = dice.pick([1, 2])
    const hurt = (n: number): FaultPlan => {
      const about = { at: 2_000 * (n + 1) + dice.between(0, 2_500), who: dice.hits(0.5) && keepers > 1 ? 'keeper-1' : 'keeper' }
      if (dice.hits(0.6)) return { kind: 'die', ...about, n: dice.whole(0, 25), back_ms: 500 }
      return { kind: 'stop', ...about, ms: dice.between(500, 5_000) }
    }
    const faults = Array.from({ length: 8 }, (_, n) => hurt(n)).sort((one, other) => one.at - other.at)
    const segment = dice.hits(0.6) ? dice.pick([8, 16]) : undefined
    return { clustered: dice.hits(0.3), deletes: false, keepers, segment, passes: own, faults, calm_at: 20_000, until: 50_000 }
  },
  /** Every request is of another version, or malformed: some are asked for again, soundly or not, and dispatchers die at refusing them. */
  unreadable: ({ passes }, dice) => {
    const own = many(passes, 12).map((pass) => ({
      ...plain(pass, dice),
      spoilt: spoilt(dice),
      given: dice.hits(0.5),
      again: dice.hits(0.5) ? [{ after: dice.between(1, 3_000), same: dice.hits(0.6) }] : [],
    }))
    const die = ({ at }: PassPlan): FaultPlan[] => [
      { kind: 'die', at: at - 5, who: dice.pick(['dispatcher-0', 'dispatcher-1', 'keeper']), n: dice.whole(1, 12), back_ms: 300 },
    ]
    return { clustered: dice.hits(0.3), faults: dice.hits(0.5) ? troubles(own.slice(0, 3), die) : [], passes: own }
  },
  /** The policy changes, its author dies between telling the stream and the bucket, and passes go on being asked for. */
  policy: ({ passes }, dice) => {
    const own = many(passes, 16).map((pass, n) => ({ ...plain(pass, dice), at: 500 + 1_500 * n, ms: 100 }))
    const policies = [1_000, 7_000, 14_000].map((at) => at + dice.between(0, 2_000))
    const die = policies.map((at): FaultPlan => ({ kind: 'die', at: at - 1, who: 'pat', n: dice.whole(11, 19), back_ms: 500 }))
    return { clustered: false, policies, passes: own, faults: die.slice(0, 2), until: 45_000 }
  },
}
