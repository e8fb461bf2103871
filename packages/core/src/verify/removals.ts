import { type Fact, idTime, keyText, type PassKey, sha256 } from '@passover/schemas'
import { Custody } from '../custody.js'
import type { Recorded } from './recorded.js'
import { Retentions, SLACK_MS } from './retentions.js'

const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000
/** Names of passes that are kept for the holds; beyond it nothing is said about them. */
const MOST_NAMES = 100_000

/** A segment that retention took out of the archive, as its entry in the manifest tells it. Times: server ms. */
export interface RemovedTold {
  k: number
  /** Sequences that it may have held. */
  first: number
  last: number
  /** Of its messages; undefined: it held none. */
  times: { first: number; last: number } | undefined
  /** When it says that it was removed. */
  at: number
  /** When that was written, by the server that stored it; undefined: nobody can tell. */
  stored?: number | undefined
}

export interface RemovalFault {
  k: number
  what: string
}

interface Told extends RemovedTold {
  /** Time of the newest message that stands before its end. */
  after: number
}

interface PassHold {
  hold: number
  key: PassKey
  by: string
  since: number
  until: number
}

/**
 * Holds what the archive's retention removed against what is stored elsewhere (decision 103): an entry alone could say of any segment that it was
 * old enough. Versions of the policy and custody events stay, so what was in force at the time is known, also where it was published later than
 * the segment was sealed.
 */
export class Removals {
  private readonly retentions: Retentions
  private readonly custody = new Custody()
  private readonly holds: PassHold[] = []
  /** By erasure: the sequence of its first tombstone. */
  private readonly begun = new Map<number, number>()
  private readonly removed: Told[] = []
  /** Passes that are here, of those whose ids are as old as what was removed. */
  private readonly names = new Set<string>()
  private readonly open = new Map<number, number>()
  private newest = Number.NEGATIVE_INFINITY

  constructor({ whole }: { whole: boolean }) {
    this.retentions = new Retentions(whole)
  }

  /** A message, in order; of a removed segment what is kept of it, before `take` is told of it. */
  see(recorded: Recorded): void {
    const { fact } = recorded
    this.newest = Math.max(this.newest, fact.time)
    if (recorded.version === 'policy') this.retentions.take({ body: recorded.body(), time: fact.time })
    else if (recorded.version === 'custody') this.custodySaid(recorded)
    else if (this.removed.length > 0) this.goesOn(fact)
  }

  take(told: RemovedTold): void {
    this.removed.push({ ...told, after: this.newest })
  }

  /** What is wrong with what was removed. `now`: server ms. */
  *faults(now: number): Generator<RemovalFault> {
    for (const [nth, told] of this.removed.entries()) {
      for (const what of [this.unlikely(told, now), this.tooEarly(told), this.wasOpen(told), this.wasHeld(told, this.removed[nth - 1])])
        if (what !== undefined) yield { k: told.k, what }
    }
  }

  private custodySaid(recorded: Recorded): void {
    const { sequence, time } = recorded.fact
    const { sender = '' } = recorded
    const counted = this.custody.take({ sequence, time, sender, body: recorded.body() })
    if (counted?.kind === 'hold' && 'pass' in counted.scope)
      this.holds.push({ hold: sequence, key: counted.scope.pass, by: sender, since: time, until: Number.POSITIVE_INFINITY })
    if (counted?.kind === 'erased' && !this.begun.has(counted.erase)) this.begun.set(counted.erase, sequence)
    if (counted?.kind !== 'release') return
    const held = this.holds.find(({ hold }) => hold === counted.hold)
    if (held) held.until = time
  }

  /** A pass that goes on, or is there, behind a segment that was removed. */
  private goesOn(fact: Fact): void {
    const newest = this.removed.at(-1) as Told
    const key = keyOf(fact)
    const made = key && idTime(key.id)
    if (key && made !== undefined && made <= (newest.times?.last ?? newest.after) && this.names.size < MOST_NAMES)
      this.names.add(keyText(key))
    const before = fact.type === 'step' ? fact.guard?.sequence : undefined
    if (!before || before > newest.last) return
    const within = this.removed.find(({ first, last }) => first <= before && before <= last)
    if (within && fact.time > within.at + SLACK_MS && !this.open.has(within.k)) this.open.set(within.k, fact.sequence)
  }

  private unlikely({ at, stored, times, after }: Told, now: number): string | undefined {
    if (stored !== undefined && at > stored + SLACK_MS)
      return `says that it was removed ${day(at)}, and that was written down before, ${day(stored)}`
    if (at > now + SLACK_MS) return `says that it was removed ${day(at)}, which is yet to come`
    return times && times.last < after - SLACK_MS
      ? `says that its newest message was of ${day(times.last)}, though one that stands before its end is of ${day(after)}`
      : undefined
  }

  private tooEarly({ at: said, stored = said, times, after }: Told): string | undefined {
    if (!times) return undefined
    const at = said > stored + SLACK_MS ? stored : said
    const newest = after > times.last + SLACK_MS ? after : times.last
    const least = this.retentions.least(at - SLACK_MS, at + SLACK_MS)
    const age = at - newest
    if (!least || age + SLACK_MS >= least.days * DAY_MS) return undefined
    const by =
      least.version === 0 ? 'the defaults, which were in force then, keep' : `version ${least.version} of the policy, in force then, keeps`
    return `was removed when its newest message was ${days(age)} old: ${by} ${least.days} days`
  }

  private wasOpen({ k, at }: Told): string | undefined {
    const sequence = this.open.get(k)
    return sequence === undefined
      ? undefined
      : `was removed ${day(at)}, while a pass in it was open: its next step, ${sequence}, was stored later`
  }

  /** Of a pass whose id says when it was made. Of a session's passes nothing tells any more in which segments they stood. */
  private wasHeld({ k, at, times }: Told, previous: Told | undefined): string | undefined {
    if (!times || this.names.size >= MOST_NAMES) return undefined
    const since = k === 0 ? Number.NEGATIVE_INFINITY : previous?.k === k - 1 ? previous.times?.last : undefined
    const from = since ?? times.first + SLACK_MS
    for (const one of this.holds) {
      const { hold, key, by, since: held, until } = one
      const made = idTime(key.id)
      if (made === undefined || made <= from || made > times.last || held + SLACK_MS > at || until <= at) continue
      if (!this.names.has(keyText(key)) && !this.cameTooLate(one))
        return `was removed while ${by} held ${keyText(key)} (hold ${hold}), which began in it: nothing of that is left`
    }
    return undefined
  }

  /** A hold on a pass that was being erased already (decision 100): its tombstone says what became of it. */
  private cameTooLate({ hold, key }: PassHold): boolean {
    const erasure = this.custody.erasureOf(sha256(key.id))
    return erasure !== undefined && (this.begun.get(erasure.erase) as number) < hold
  }
}

function keyOf(fact: Fact): PassKey | undefined {
  if (fact.type === 'step' || fact.type === 'event' || fact.type === 'decision') return fact.key
  return fact.type === 'request' && fact.id !== undefined
    ? { originator: fact.originator, subagent: fact.subagent, id: fact.id }
    : undefined
}

function day(time: number): string {
  return Number.isFinite(time) && Math.abs(time) < 8.64e15 ? new Date(time).toISOString() : String(time)
}

/** Rounded down: what is a moment short of thirty days is not thirty days old. */
function days(ms: number): string {
  const [unit, name] = ms < DAY_MS ? [HOUR_MS, 'hours'] : [DAY_MS, 'days']
  return `${Math.max(0, Math.floor((ms / unit) * 100) / 100)} ${name}`
}
