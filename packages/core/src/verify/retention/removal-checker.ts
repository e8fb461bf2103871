import { type Fact, idTime, keyText, type PassKey, sha256 } from '@passover/schemas'
import { CustodyLog } from '../../audit/custody-log.js'
import { guardedBefore } from '../rules/step-guard.js'
import type { RecordedMessage } from '../state/recorded-message.js'
import { AnnouncedRemovals, differs, type RemovalAnnouncement, within } from './announced-removals.js'
import { RetentionHistory, SLACK_MS } from './retention-history.js'

const HOUR_MS = 3_600_000
const DAY_MS = 86_400_000
/** Maximum number of pass names kept for the check of holds. Above it, holds are not checked. */
const MAX_NAMES = 100_000

/** A segment that retention removed from the archive, according to its entry in the manifest. Times are server ms. */
export interface RemovedSegmentEntry {
  k: number
  /** Sequences that it may have contained. */
  first: number
  last: number
  count: number
  /** Times of its messages. `undefined` if it had none. */
  times: { first: number; last: number } | undefined
  chain_before: string
  chain_after: string
  /** Time of its removal, according to the entry. */
  at: number
  /** Time at which the entry was stored, by the server's clock. `undefined` if unknown. */
  stored?: number | undefined
}

export interface RemovalFault {
  /** `remark` if it cannot be determined. */
  severity: 'fault' | 'remark'
  k: number
  what: string
}

interface CheckedRemoval extends RemovedSegmentEntry {
  /** Time of the newest message stored before the end of the segment. */
  after: number
}

interface PassHold {
  hold: number
  key: PassKey
  by: string
  since: number
  until: number
  /** Sequence of its release. */
  released: number
}

/**
 * Checks the removals by retention against data stored elsewhere (decision 87), because a manifest entry alone could claim of any segment
 * that it was old enough. Versions of the policy and custody events are never removed. So the policy in force at the time is known, even if it was
 * published after the segment was sealed, and every removal has an event of its own.
 */
export class RemovalChecker {
  readonly #options: { whole: boolean; ends?: 'now' | 'saved' }
  readonly #retentions: RetentionHistory
  readonly #custody = new CustodyLog()
  readonly #holds: PassHold[] = []
  /** Sequence of the first tombstone, by erasure. */
  readonly #begun = new Map<number, number>()
  readonly #removed: CheckedRemoval[] = []
  readonly #announced = new AnnouncedRemovals()
  /** Number of segments removed before removals were announced by events, or without knowing whether they were. */
  untold = 0
  /** Passes that are present, out of those whose ids are as old as the removed segments. */
  readonly #names = new Set<string>()
  readonly #open = new Map<number, number>()
  #newest = Number.NEGATIVE_INFINITY

  /** @param options - `ends` is `now` if all events up to now are read, `saved` if only those in a saved copy. */
  constructor(options: { whole: boolean; ends?: 'now' | 'saved' }) {
    this.#options = options
    this.#retentions = new RetentionHistory(options.whole)
  }

  /** Reads a message, in order. For a removed segment, reads what is kept of it, before `take` is called for the segment. */
  see(recorded: RecordedMessage): void {
    const { fact, version } = recorded
    this.#newest = Math.max(this.#newest, fact.time)
    if (version === 'policy' || version === 'custody') this.hear(recorded)
    else if (this.#removed.length > 0) this.#goesOn(fact)
  }

  /** Reads a version of the policy or a custody event. These may be read ahead of the other messages, but in their own order. */
  hear(recorded: RecordedMessage): void {
    if (recorded.version === 'policy') this.#retentions.take({ body: recorded.body(), time: recorded.fact.time })
    else this.#custodySaid(recorded)
  }

  take(removed: RemovedSegmentEntry): void {
    this.#removed.push({ ...removed, after: this.#newest })
  }

  /** Yields the faults of the removals. `now` is in server ms; `begins` is the first segment of the archive. */
  *faults(now: number, begins = 0): Generator<RemovalFault> {
    const missing = this.#announced.missingBefore(begins)
    if (missing !== undefined)
      yield fault(missing, `is missing before segment ${begins}, the first in the archive: no event records its removal`)
    const announcements = this.#announced.of(this.#removed)
    for (const announcement of new Set(announcements.values())) {
      const what = this.#saidWrong(announcement, announcements)
      if (what !== undefined) yield fault(announcement.run.from, what)
    }
    yield* this.#withoutEvent(announcements)
    for (const [nth, removed] of this.#removed.entries()) {
      const announcement = announcements.get(removed.k)
      const found = [
        announcement && differenceFromEvent(removed, announcement),
        this.#unlikely(removed, now),
        this.#tooEarly(removed, announcement),
        this.#wasOpen(removed),
        this.#wasHeld(removed, { previous: this.#removed[nth - 1], announcement }),
      ]
      for (const what of found) if (what !== undefined) yield fault(removed.k, what)
    }
  }

  /** Checks an announcement against the policy and against all segments that it announces. */
  #saidWrong(
    { sequence, policy, days, run }: RemovalAnnouncement,
    announcements: ReadonlyMap<number, RemovalAnnouncement>,
  ): string | undefined {
    const kept = this.#retentions.daysOf(policy)
    if (kept !== undefined && kept !== days)
      return `was removed by policy version ${policy} according to event ${sequence}, but that version keeps ${kept} days and not ${days}`
    const segments = within(this.#removed, run).filter(({ k }) => announcements.get(k)?.run === run)
    const entries = segments.reduce((sum, { count }) => sum + count, 0)
    return segments.length === run.to - run.from + 1 && entries !== run.entries
      ? `and the segments up to ${run.to} had ${entries} entries, but their removal event ${sequence} records ${run.entries}`
      : undefined
  }

  /** Yields the removals that no event announced. */
  *#withoutEvent(announcements: ReadonlyMap<number, RemovalAnnouncement>): Generator<RemovalFault> {
    const before: CheckedRemoval[] = []
    for (const removed of this.#removed) {
      if (announcements.has(removed.k)) continue
      if (!this.#announced.begun || this.#announced.wasBefore(removed)) before.push(removed)
      else if (this.#options.ends === 'saved' && removed.at + SLACK_MS > this.#newest)
        yield {
          severity: 'remark',
          k: removed.k,
          what: 'was removed while this archive was saved: its removal event is after the saved end',
        }
      else yield fault(removed.k, 'was removed, but no event records it')
    }
    this.untold = before.length
    const [first] = this.#announced.begun ? [] : before
    if (!first) return
    const more = before.length > 1 ? `, and ${before.length - 1} more` : ''
    const what = `was removed${more}, but no event records it: an older version of the audit service removed it, or another program did`
    yield { severity: 'remark', k: first.k, what }
  }

  #custodySaid(recorded: RecordedMessage): void {
    const { sequence, time } = recorded.fact
    // The event may have been read ahead.
    if (sequence <= this.#custody.position) return
    const { sender = '' } = recorded
    const counted = this.#custody.take({ sequence, time, sender, body: recorded.body() })
    if (counted?.kind === 'hold' && 'pass' in counted.scope) {
      const never = Number.POSITIVE_INFINITY
      this.#holds.push({ hold: sequence, key: counted.scope.pass, by: sender, since: time, until: never, released: never })
    }
    if (counted?.kind === 'erased' && !this.#begun.has(counted.erase)) this.#begun.set(counted.erase, sequence)
    if (counted?.kind === 'removals' || counted?.kind === 'removed') this.#announced.take(recorded.fact, counted)
    if (counted?.kind !== 'release') return
    const held = this.#holds.find(({ hold }) => hold === counted.hold)
    if (held) Object.assign(held, { until: time, released: sequence })
  }

  /** Reads a message after a removed segment: notes passes that still exist, and segments that were removed while a pass in them was open. */
  #goesOn(fact: Fact): void {
    const newest = this.#removed.at(-1) as CheckedRemoval
    const key = keyOf(fact)
    const made = key && idTime(key.id)
    if (key && made !== undefined && made <= (newest.times?.last ?? newest.after) && this.#names.size < MAX_NAMES)
      this.#names.add(keyText(key))
    const before = fact.type === 'step' ? guardedBefore(fact) : 0
    if (!before || before > newest.last) return
    const within = this.#removed.find(({ first, last }) => first <= before && before <= last)
    if (within && fact.time > within.at + SLACK_MS && !this.#open.has(within.k)) this.#open.set(within.k, fact.sequence)
  }

  #unlikely({ at, stored, times, after }: CheckedRemoval, now: number): string | undefined {
    if (stored !== undefined && at > stored + SLACK_MS)
      return `records its removal on ${day(at)}, but that record was stored earlier, on ${day(stored)}`
    if (at > now + SLACK_MS) return `records its removal on ${day(at)}, which is in the future`
    return times && times.last < after - SLACK_MS
      ? `records ${day(times.last)} as the time of its newest message, but an earlier message is of ${day(after)}`
      : undefined
  }

  /** Checks that a segment was old enough when it was removed. The time of the announcement is the server's, and nothing was removed before it. */
  #tooEarly({ at: said, stored = said, times, after }: CheckedRemoval, announcement: RemovalAnnouncement | undefined): string | undefined {
    if (!times) return undefined
    const at = announcement?.time ?? (said > stored + SLACK_MS ? stored : said)
    const newest = after > times.last + SLACK_MS ? after : times.last
    const least = this.#retentions.least(at - SLACK_MS, at + SLACK_MS)
    const age = at - newest
    if (!least || age + SLACK_MS >= least.days * DAY_MS) return undefined
    const by =
      least.version === 0 ? 'the defaults, in force at that time, keep' : `policy version ${least.version}, in force at that time, keeps`
    return `was removed when its newest message was ${days(age)} old: ${by} ${least.days} days`
  }

  #wasOpen({ k, at }: CheckedRemoval): string | undefined {
    const sequence = this.#open.get(k)
    return sequence === undefined
      ? undefined
      : `was removed on ${day(at)} while a pass in it was open: the next step of that pass, ${sequence}, was stored later`
  }

  /**
   * Checks that no hold on a pass covered a segment. Only for passes whose id contains a time. For holds on sessions, the segments of their passes
   * are no longer known.
   */
  #wasHeld(
    removed: CheckedRemoval,
    { previous, announcement }: { previous: CheckedRemoval | undefined; announcement: RemovalAnnouncement | undefined },
  ): string | undefined {
    const { k, times } = removed
    if (!times || this.#names.size >= MAX_NAMES) return undefined
    const since = k === 0 ? Number.NEGATIVE_INFINITY : previous?.k === k - 1 ? previous.times?.last : undefined
    const from = since ?? times.first + SLACK_MS
    for (const one of this.#holds) {
      const { hold, key, by } = one
      const made = idTime(key.id)
      if (made === undefined || made <= from || made > times.last || !stoodAt(one, removed.at, announcement)) continue
      if (!this.#names.has(keyText(key)) && !this.#cameTooLate(one))
        return `was removed while ${by} held ${keyText(key)} (hold ${hold}), which began in it: none of its messages is left`
    }
    return undefined
  }

  /** Returns true for a hold on a pass that was already being erased (decision 100). Its tombstone documents the pass. */
  #cameTooLate({ hold, key }: PassHold): boolean {
    const erasure = this.#custody.erasureOf(sha256(key.id))
    return erasure !== undefined && (this.#begun.get(erasure.erase) as number) < hold
  }
}

function fault(k: number, what: string): RemovalFault {
  return { severity: 'fault', k, what }
}

function differenceFromEvent(removed: RemovedSegmentEntry, { sequence, time, run }: RemovalAnnouncement): string | undefined {
  const what = differs(removed, run)
  if (what !== undefined) return `has ${what} compared with its removal event ${sequence}`
  return removed.at < time - SLACK_MS
    ? `records its removal on ${day(removed.at)}, but removal event ${sequence} is of ${day(time)}`
    : undefined
}

/**
 * Returns true if a hold was in force when a segment was removed. Compares the order of events in the stream; without an announcement only times,
 * with slack because clocks differ.
 */
function stoodAt({ hold, released, since, until }: PassHold, at: number, announcement: RemovalAnnouncement | undefined): boolean {
  return announcement ? hold < announcement.sequence && released > announcement.sequence : since + SLACK_MS <= at && until > at
}

function keyOf(fact: Fact): PassKey | undefined {
  if (fact.type === 'step' || fact.type === 'event' || fact.type === 'decision' || fact.type === 'untrusted') return fact.key
  return fact.type === 'request' && fact.id !== undefined
    ? { originator: fact.originator, subagent: fact.subagent, id: fact.id }
    : undefined
}

/** Formats a time (ms) from an entry, which may be any number. */
function day(time: number): string {
  return Number.isFinite(time) && Math.abs(time) < 8.64e15 ? new Date(time).toISOString() : String(time)
}

/** Formats a duration, rounded down: a segment that is a moment short of thirty days is not thirty days old. */
function days(ms: number): string {
  const [unit, name] = ms < DAY_MS ? [HOUR_MS, 'hours'] : [DAY_MS, 'days']
  return `${Math.max(0, Math.floor((ms / unit) * 100) / 100)} ${name}`
}
