import { Dice } from './dice.js'
import { SPOILT, type Spoilt } from './spoil.js'

/** What a handler does in the end. `half`: what it returns a person must release; `stubborn`: it works on whatever its signal says; `kills`: its process dies of it. */
export type Deed = 'returns' | 'half' | 'throws' | 'hangs' | 'stubborn' | 'kills'

/** What a person decides, how long after it fell due, and whether about what was shown. */
export interface DecisionPlan {
  after: number
  verdict: 'approve' | 'deny' | 'nobody'
  digest: 'right' | 'wrong'
}

export interface PassPlan {
  name: string
  /** Ms after the beginning; of a child, after its parent's handler began. */
  at: number
  from: string
  to: string
  timeout_ms: number
  /** An id of the caller's own, without a time in it. */
  given: boolean
  does: Deed
  /** How long its handler takes. */
  ms: number
  children: PassPlan[]
  hold?: DecisionPlan
  /** About what it returns, where that is only half done. */
  release?: DecisionPlan
  cancel?: number
  again: { after: number; same: boolean }[]
  budget?: number
  /** How its requests are spoilt; `until_again`: whoever asks again sends a sound one. */
  spoilt?: { how: Spoilt; until_again: boolean }
}

/** `die`: a process dies in the middle of its `n`th exchange with the server, or at once. `mute`: a durable that has lost its leader delivers nothing. `slow`: storing takes long, reading does not. `bounce`: a client has the server store an answer in a pass's journal, `bare`: without headers. */
export type FaultPlan =
  | { kind: 'die'; at: number; who: string; n: number; back_ms: number }
  | { kind: 'scratch'; at: number; who: string }
  | { kind: 'stop'; at: number; who: string; ms: number }
  | { kind: 'cut'; at: number; who: string; ms: number }
  | { kind: 'storm'; at: number; ms: number; loss: number; late: number; late_ms: number }
  | { kind: 'slow'; at: number; ms: number; store_ms: number }
  | { kind: 'restart'; at: number; down_ms: number; forget_ms: number }
  | { kind: 'remove'; at: number; consumer: string }
  | { kind: 'mute'; at: number; consumer: string; ms: number }
  | { kind: 'bounce'; at: number; under: BouncePlace; bare: boolean }

/** What a bounced message pretends to be. */
export const BOUNCE_PLACES = ['held', 'work', 'fence', 'return', 'system_return', 'decision'] as const
export type BouncePlace = (typeof BOUNCE_PLACES)[number]

/** Everything that a run does, made of a seed. Taking things out of it is what shrinking does. */
export interface Plan {
  seed: number
  clustered: boolean
  /** Whether agents may ask for the stream's time. */
  dispatchers: number
  workers: number
  /** Replicas of the audit (1). */
  keepers?: number
  id_window_ms: number
  /** After which nothing goes wrong any more, and the end. */
  calm_at: number
  until: number
  /** Closed passes are deleted when they are old enough, by something that needs no archive. */
  deletes: boolean
  /** So many messages fill a segment of the archive; the audit deletes what is in sealed ones. Undefined: none is ever full. */
  segment?: number | undefined
  /** Originators that ask for delivery while they are away. */
  durable?: string[]
  /** Somebody stores steps without guards: fences and returns of the newest attempt. */
  evil: number[]
  evil_kinds?: ('fence' | 'return')[]
  /** How often an exact get of a cluster shows a replica that lags. */
  lag?: number
  /** By how many of the stream's changes at most. */
  lag_by?: number
  /** When a person puts another version of the policy into force. */
  policies?: number[]
  skew: Record<string, number>
  /** Dispatchers take so few requests at a time that others come out of turn. */
  narrow: boolean
  passes: PassPlan[]
  faults: FaultPlan[]
}

const SUBAGENTS = ['audit', 'scout', 'fixer']
const MINUTE = 60_000

export function makePlan(seed: number): Plan {
  const dice = new Dice(seed, 'plan')
  const quiet = dice.hits(0.08)
  const long = dice.hits(0.2)
  const dispatchers = dice.pick([1, 2, 2, 3])
  const workers = dice.pick([1, 2, 2])
  const id_window_ms = long ? 9_000 : 60_000
  const passes = Array.from({ length: dice.whole(2, 6) }, (_, n) => root(dice, `p${n}`, { long, id_window_ms }))
  const roles = rolesOf({ dispatchers, workers })
  const some = new Dice(seed, 'half')
  for (const pass of passes) {
    if (pass.does !== 'returns' || !some.hits(0.12)) continue
    pass.does = 'half'
    pass.release = decision(some)
  }
  spoilSome(passes, new Dice(seed, 'spoilt'))
  const changes = new Dice(seed, 'policies')
  const archives = new Dice(seed, 'archives').hits(long ? 0.6 : 0.2)
  return {
    seed,
    clustered: dice.hits(0.4),
    dispatchers,
    workers,
    id_window_ms,
    calm_at: 12_000,
    until: long ? 62_000 : 37_000,
    deletes: long && !archives,
    segment: archives ? new Dice(seed, 'segment').pick([6, 10, 16, 24]) : undefined,
    evil: !quiet && dice.hits(0.1) ? [dice.between(500, 9_000), dice.between(500, 9_000)] : [],
    skew: Object.fromEntries(roles.map((role) => [role, quiet || dice.hits(0.6) ? 0 : Math.round(dice.between(-5 * MINUTE, 5 * MINUTE))])),
    policies: changes.hits(0.2) ? [changes.between(300, 6_000), changes.between(300, 9_000)] : [],
    narrow: new Dice(seed, 'narrow').hits(0.5),
    passes,
    faults: quiet
      ? []
      : [...Array.from({ length: dice.whole(1, 7) }, () => fault(dice, roles, dice.pick(passes))), ...bounces(seed)].sort(
          (a, b) => a.at - b.at,
        ),
  }
}

/** The reason of a request as planned, and of another one under the same id. */
export const OWN_REASON = 'as planned'
export const OTHER_REASON = 'another'

/** What is said to pass such work over. */
export function optionsOf(pass: PassPlan) {
  return {
    subagent: pass.to,
    reason: OWN_REASON,
    timeout_ms: pass.timeout_ms,
    work_context: { objective: pass.name, session_id: 'session' },
    ...(pass.hold && { override: { hold_before_dispatch: true } }),
    ...(pass.budget !== undefined && { budget: { passes: pass.budget } }),
  }
}

/** Every process that a plan runs. */
export function rolesOf({ dispatchers, workers, keepers = 1 }: Pick<Plan, 'dispatchers' | 'workers' | 'keepers'>): string[] {
  const many = (name: string, count: number) => Array.from({ length: count }, (_, n) => `${name}-${n}`)
  const replicas = many('keeper', keepers).slice(1)
  return [...many('dispatcher', dispatchers), 'keeper', ...replicas, 'alice', 'bob', ...SUBAGENTS.flatMap((name) => many(name, workers))]
}

export function isKeeper(role: string): boolean {
  return role.startsWith('keeper')
}

export function isDispatcher(role: string): boolean {
  return role.startsWith('dispatcher')
}

function root(dice: Dice, name: string, about: { long: boolean; id_window_ms: number }): PassPlan {
  const pass = common(dice, name, { from: dice.pick(['alice', 'bob']), above: [] })
  pass.at = dice.between(200, 7_000)
  pass.given = dice.hits(0.35)
  if (dice.hits(0.3)) pass.children = children(dice, pass, [])
  if (pass.children.length > 0 && dice.hits(0.3)) pass.budget = dice.whole(1, 2)
  if (dice.hits(0.3)) pass.again.push({ after: dice.between(1, 6_000), same: dice.hits(0.7) })
  if (about.long && dice.hits(0.4)) pass.again.push({ after: dice.between(8_000, about.id_window_ms * 4), same: dice.hits(0.8) })
  return pass
}

function common(dice: Dice, name: string, about: { from: string; above: string[] }): PassPlan {
  const free = SUBAGENTS.filter((one) => one !== about.from && !about.above.includes(one))
  // Now and then a loop, which must be refused.
  const to = free.length === 0 || dice.hits(0.05) ? dice.pick(SUBAGENTS) : dice.pick(free)
  const does = dice.pick<Deed>(['returns', 'returns', 'returns', 'returns', 'returns', 'throws', 'hangs', 'stubborn', 'kills'])
  const pass: PassPlan = {
    name,
    at: 0,
    from: about.from,
    to,
    timeout_ms: Math.round(dice.between(800, 6_000)),
    given: false,
    does,
    ms: dice.hits(0.4) ? 0 : Math.round(dice.between(1, 4_000)),
    children: [],
    again: [],
  }
  if (dice.hits(0.25)) {
    pass.hold = decision(dice)
  }
  if (dice.hits(0.15)) pass.cancel = dice.between(1, 4_000)
  return pass
}

/** In one plan of six some agents are of another version, or send what nobody can read. */
function spoilSome(passes: PassPlan[], dice: Dice): void {
  if (!dice.hits(1 / 6)) return
  const each = (pass: PassPlan): void => {
    if (dice.hits(0.4)) pass.spoilt = spoilt(dice)
    pass.children.forEach(each)
  }
  passes.forEach(each)
}

export function spoilt(dice: Dice): NonNullable<PassPlan['spoilt']> {
  return { how: dice.pick(SPOILT), until_again: dice.hits(0.5) }
}

export function decision(dice: Dice): DecisionPlan {
  const verdict = dice.pick(['approve', 'approve', 'approve', 'deny', 'nobody'] as const)
  return { after: dice.between(1, 5_000), verdict, digest: dice.hits(0.85) ? 'right' : 'wrong' }
}

function children(dice: Dice, parent: PassPlan, above: string[]): PassPlan[] {
  const ancestors = [...above, parent.from]
  return Array.from({ length: dice.whole(1, 2) }, (_, n) => {
    const child = common(dice, `${parent.name}.${n}`, { from: parent.to, above: ancestors })
    child.at = dice.hits(0.6) ? 0 : dice.between(0, 2_000)
    if (ancestors.length < 3 && dice.hits(0.35)) child.children = children(dice, child, ancestors)
    return child
  })
}

function bounces(seed: number): FaultPlan[] {
  const dice = new Dice(seed, 'bounces')
  if (!dice.hits(0.15)) return []
  const bounce = (): FaultPlan => ({ kind: 'bounce', at: dice.between(300, 9_000), under: dice.pick(BOUNCE_PLACES), bare: dice.hits(0.5) })
  return Array.from({ length: dice.whole(1, 8) }, bounce)
}

/** Mostly where and when something is under way. */
function fault(dice: Dice, roles: string[], pass: PassPlan): FaultPlan {
  const near = dice.hits(0.6)
  const at = near ? Math.max(50, pass.at + dice.between(-300, Math.max(300, pass.ms))) : dice.between(100, 10_000)
  const who = near && dice.hits(0.6) ? dice.pick(roles.filter((role) => role.startsWith(pass.to))) : dice.pick(roles)
  const which = dice.next()
  const shared = which < 0.4 ? 'dispatcher' : 'dispatcher_decisions'
  const consumer = which < 0.5 ? shared : `work_${near ? pass.to : dice.pick(SUBAGENTS)}_medium`
  switch (dice.pick(['die', 'die', 'die', 'stop', 'stop', 'cut', 'storm', 'restart', 'remove'] as const)) {
    case 'die':
      return { kind: 'die', at, who, n: dice.whole(0, 30), back_ms: dice.between(50, 4_000) }
    case 'stop':
      return { kind: 'stop', at, who, ms: dice.between(50, 7_000) }
    case 'cut':
      return { kind: 'cut', at, who, ms: dice.between(50, 4_000) }
    case 'storm':
      return {
        kind: 'storm',
        at,
        ms: dice.between(500, 5_000),
        loss: dice.pick([0, 0.05, 0.2, 0.4]),
        late: dice.pick([0.05, 0.2, 0.5]),
        late_ms: dice.between(20, 3_000),
      }
    case 'restart':
      return { kind: 'restart', at, down_ms: dice.between(100, 3_000), forget_ms: dice.between(0, 10_000) }
    default:
      return { kind: 'remove', at, consumer }
  }
}
