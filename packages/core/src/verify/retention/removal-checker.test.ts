import { type Fact, journalFilter, policyDigest, type SegmentRun, sha256 } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import type { RecordedMessage } from '../state/recorded-message.js'
import { RemovalChecker, type RemovedSegmentEntry } from './removal-checker.js'

const DAY = 86_400_000
/** 2026-01-01. */
const START = 1_767_225_600_000
const FOREVER = START + 10_000 * DAY

function recorded(fact: Partial<Fact>, more: Partial<RecordedMessage> & { said?: unknown } = {}): RecordedMessage {
  const { said, ...rest } = more
  return { fact: { type: 'other', ...fact }, body: () => said, ...rest } as RecordedMessage
}

/** An id as the SDK makes it. */
function idOf(time: number): string {
  return `0abcdefg${time.toString(36).padStart(9, '0')}_abcdefghijklmn`
}

const keyOf = (time: number) => ({ originator: 'alice', subagent: 'audit', id: idOf(time) })

/** The chain's value before segment k. */
function chain(k: number): string {
  return k.toString(16).padStart(64, '0')
}

/** As an event tells segments of the archive below. */
function run(from: number, to = from): SegmentRun {
  const [first_time, last_time] = [START + from * DAY, START + (to + 1) * DAY]
  return { from, to, entries: 10 * (to - from + 1), first_time, last_time, chain_before: chain(from), chain_after: chain(to + 1) }
}

class Archive {
  readonly removals: RemovalChecker
  private sequence = 0

  constructor(options: ConstructorParameters<typeof RemovalChecker>[0] = { whole: true }) {
    this.removals = new RemovalChecker(options)
  }

  policy(version: number, retention_days: number, time: number): this {
    const document = { audit: { retention_days } } as never
    const said = { v: 1, version, base: version - 1, document, digest: policyDigest(document) }
    return this.see({ time }, { version: 'policy', said })
  }

  custody(time: number, said: object, sender = 'maria'): this {
    return this.see({ time }, { version: 'custody', sender, said: { v: 1, ...said } })
  }

  see(fact: Partial<Fact>, more: Partial<RecordedMessage> & { said?: unknown } = {}): this {
    this.removals.see(recorded({ sequence: ++this.sequence, ...fact } as Fact, more))
    return this
  }

  /** Segment k, a day long, removed so many days after its end. */
  removed(k: number, after_days: number, more: Partial<RemovedSegmentEntry> = {}): this {
    const times = { first: START + k * DAY, last: START + (k + 1) * DAY }
    this.removals.take({
      k,
      first: k * 4_096,
      last: k * 4_096 + 4_095,
      count: 10,
      chain_before: chain(k),
      chain_after: chain(k + 1),
      times,
      at: times.last + after_days * DAY,
      ...more,
    })
    return this
  }

  /** Removals are told from here on. */
  begins(time: number, ...untold: SegmentRun[]): this {
    return this.custody(time, { kind: 'removals', begins: 0, untold }, 'passover')
  }

  tells(time: number, segments: SegmentRun[], more: { policy?: number; retention_days?: number } = {}): this {
    return this.custody(time, { kind: 'removed', segments, policy: 0, retention_days: 30, ...more }, 'passover')
  }

  faults(now = FOREVER, begins?: number): [number, string][] {
    return [...this.removals.faults(now, begins)].flatMap(({ severity, k, what }) => (severity === 'fault' ? [[k, what]] : []))
  }

  remarks(): string[] {
    return [...this.removals.faults(FOREVER)].flatMap(({ severity, k, what }) => (severity === 'remark' ? [`${k} ${what}`] : []))
  }
}

describe('Removals: age of the segment', () => {
  it('checks the age against the policy in force at that time, not against the entry', () => {
    expect(new Archive().removed(0, 30).faults()).toEqual([])
    // Clocks differ.
    expect(
      new Archive()
        .see({ time: START + DAY + 5_000 })
        .removed(0, 30 - 5_000 / DAY)
        .faults(),
    ).toEqual([])
    expect(new Archive().removed(0, 29).faults()).toEqual([
      [0, 'was removed when its newest message was 29 days old: the defaults, in force at that time, keep 30 days'],
    ])
    // Published long after the segment was sealed.
    const shorter = () => new Archive().removed(0, 10).policy(1, 7, START + 5 * DAY)
    expect(shorter().faults()).toEqual([])
    expect(
      shorter()
        .policy(2, 90, START + 6 * DAY)
        .faults(),
    ).toEqual([[0, 'was removed when its newest message was 10 days old: policy version 2, in force at that time, keeps 90 days']])
    // In force a moment before: an audit may not have read the newer one yet.
    expect(
      shorter()
        .policy(2, 90, START + 11 * DAY - 1_000)
        .faults(),
    ).toEqual([])
    // What came later excuses nothing.
    expect(
      new Archive()
        .removed(0, 10)
        .policy(1, 7, START + 20 * DAY)
        .faults(),
    ).toHaveLength(1)
  })

  it('takes the age from earlier messages and from the time of the entry if they contradict it', () => {
    const fresh = new Archive()
      .see({ time: START + 40 * DAY })
      .removed(5, 34, { times: { first: START, last: START + DAY }, at: START + 40 * DAY })
    expect(fresh.faults()).toEqual([
      [5, 'records 2026-01-02T00:00:00.000Z as the time of its newest message, but an earlier message is of 2026-02-10T00:00:00.000Z'],
      [5, 'was removed when its newest message was 0 hours old: the defaults, in force at that time, keep 30 days'],
    ])
    const stored = START + 3 * DAY
    expect(new Archive().removed(0, 40, { stored }).faults()).toEqual([
      [0, 'records its removal on 2026-02-11T00:00:00.000Z, but that record was stored earlier, on 2026-01-04T00:00:00.000Z'],
      [0, 'was removed when its newest message was 2 days old: the defaults, in force at that time, keep 30 days'],
    ])
    // It was written again since.
    expect(new Archive().removed(0, 40, { stored: FOREVER }).faults()).toEqual([])
    expect(new Archive().removed(0, 40).faults(START + 20 * DAY)).toEqual([
      [0, 'records its removal on 2026-02-11T00:00:00.000Z, which is in the future'],
    ])
    expect(new Archive().removed(0, 40, { at: 1e300 }).faults()[0]?.[1]).toContain('records its removal on 1e+300')
  })

  it('reports nothing for an empty segment or an unknown policy', () => {
    expect(new Archive().removed(0, 0, { times: undefined, at: START }).faults()).toEqual([])
    const some = new RemovalChecker({ whole: false })
    const chains = { chain_before: chain(3), chain_after: chain(4) }
    some.take({ k: 3, first: 1, last: 2, count: 2, ...chains, times: { first: START, last: START }, at: START + DAY })
    expect([...some.faults(FOREVER)].map(({ severity }) => severity)).toEqual(['remark'])
  })
})

describe('Removals: open passes', () => {
  const step = (guard: number | undefined, time: number, subject = journalFilter(keyOf(START))): Partial<Fact> => ({
    type: 'step',
    key: keyOf(START),
    time,
    ...(guard === undefined ? {} : { guard: { sequence: guard, subject } }),
  })

  it('reports a removal while a pass was open if its next step names the removed one', () => {
    const archive = new Archive().removed(0, 31).see({ ...step(100, START + 50 * DAY), sequence: 5_000 })
    archive.see({ ...step(200, START + 51 * DAY), sequence: 5_001 })
    expect(archive.faults()).toEqual([
      [0, 'was removed on 2026-02-02T00:00:00.000Z while a pass in it was open: the next step of that pass, 5000, was stored later'],
    ])
  })

  it('accepts a pass that continued before the removal, or whose next step names a present step or none', () => {
    const archive = new Archive().removed(1, 31)
    for (const [guard, time] of [
      [5_000, START + 3 * DAY],
      [9_000, FOREVER],
      [0, FOREVER],
      [undefined, FOREVER],
      [50, FOREVER],
    ] as const)
      archive.see(step(guard, time))
    // An agent chooses what its guard names: one about other subjects says nothing of its pass.
    archive.see(step(4_100, FOREVER, 'agent.paula'))
    expect(archive.faults()).toEqual([])
    archive.see(step(4_100, FOREVER))
    expect(archive.faults()).toHaveLength(1)
  })
})

describe('Removals: legal holds', () => {
  const key = keyOf(START + DAY / 2)
  const hold = { kind: 'hold', scope: { pass: key }, reason: 'dispute' }
  const held = 'was removed while maria held'

  it('reports a held pass whose id is as old as the segment and that has no messages left', () => {
    expect(
      new Archive()
        .removed(0, 31)
        .custody(START + 2 * DAY, hold)
        .faults()
        .map(([, what]) => what),
    ).toEqual([expect.stringMatching(/was removed while maria held alice.*\(hold 1\), which began in it/)])
    const others = new Archive().removed(0, 31).removed(1, 31)
    others.custody(START + 3 * DAY, { ...hold, scope: { pass: keyOf(START + 1.5 * DAY) } })
    expect(others.faults()).toEqual([[1, expect.stringContaining(held)]])
  })

  it('accepts a pass that was released before, held later, is still present, or is of another time', () => {
    const release = { kind: 'release', hold: 1 }
    const clean = (make: (archive: Archive) => unknown) => {
      const archive = new Archive()
      make(archive)
      expect(archive.faults()).toEqual([])
    }
    clean((archive) =>
      archive
        .removed(0, 31)
        .custody(START + 2 * DAY, hold)
        .custody(START + 3 * DAY, release),
    )
    clean((archive) => archive.removed(0, 31).custody(START + 33 * DAY, hold))
    clean((archive) =>
      archive
        .removed(0, 31)
        .see({ type: 'event', key, time: START + 2 * DAY })
        .custody(START + 2 * DAY, hold),
    )
    const asked: Partial<Fact> = { type: 'request', originator: 'alice', subagent: 'audit', id: key.id, time: START + 2 * DAY }
    clean((archive) =>
      archive
        .removed(0, 31)
        .see(asked)
        .custody(START + 2 * DAY, hold),
    )
    clean((archive) => archive.removed(0, 31).custody(START, { ...hold, scope: { pass: keyOf(START + 2 * DAY) } }))
    clean((archive) => archive.removed(0, 31).custody(START, { ...hold, scope: { pass: { ...key, id: 'given-id-1' } } }))
    clean((archive) => archive.removed(0, 31).custody(START, { ...hold, scope: { session: 's' } }))
    // The system holds nothing; of what was not held nothing is released.
    clean((archive) => archive.removed(0, 31).custody(START, hold, 'passover').custody(START, { kind: 'release', hold: 77 }))
    // It may have begun in the segment before, which is here.
    clean((archive) => archive.removed(1, 31).custody(START + 2 * DAY, { ...hold, scope: { pass: keyOf(START + DAY + 1_000) } }))
    clean((archive) => archive.removed(0, 31, { times: undefined }).custody(START + 2 * DAY, hold))
  })

  it('accepts a hold after the start of the erasure, and reports an earlier one regardless of tombstones', () => {
    const frames = [[1, START + DAY / 2, Buffer.alloc(32)]]
    const erased = (...ids: string[]) => ({ kind: 'erased', erase: 1, passes: ids.map((id) => ({ pass: sha256(id), frames, parts: [] })) })
    const other = keyOf(START + DAY / 3)
    const said = (...bodies: object[]) => {
      const archive = new Archive().removed(0, 31).custody(START + DAY, { kind: 'erase', session: 's', reason: 'asked for' })
      for (const body of bodies) archive.custody(START + 2 * DAY, body, 'kind' in body && body.kind === 'erased' ? 'passover' : 'maria')
      return archive.faults().map(([, what]) => what)
    }
    expect(said(erased(key.id), hold)).toEqual([])
    // Each tombstone names some passes of an erasure: the first of all counts.
    expect(said(erased(other.id), hold, erased(key.id))).toEqual([])
    expect(said(hold, erased(key.id))).toEqual([expect.stringContaining(held)])
    expect(said(erased(other.id), hold)).toEqual([expect.stringContaining(held)])
  })

  it('ignores requests without an id and messages without a pass', () => {
    const archive = new Archive().removed(0, 31).see({ type: 'request', originator: 'alice', subagent: 'audit', time: START + 2 * DAY })
    archive.see({ type: 'other', time: START + 2 * DAY }).custody(START + 2 * DAY, hold)
    expect(archive.faults()).toHaveLength(1)
  })
})

describe('Removals: removal events', () => {
  const T = START + 40 * DAY

  it('gives one remark for all removals of an archive without removal events', () => {
    const archive = new Archive().removed(0, 31).removed(1, 31)
    expect(archive.faults()).toEqual([])
    expect(archive.remarks()).toEqual([
      '0 was removed, and 1 more, but no event records it: an older version of the audit service removed it, or another program did',
    ])
    expect(archive.removals.untold).toBe(2)
    expect(new Archive().removed(3, 31).remarks()).toEqual([
      expect.stringMatching(/^3 was removed, but no event records it: an older version/),
    ])
  })

  it('requires an event for each removal after the first removals event, which lists the earlier ones', () => {
    const archive = new Archive()
      .removed(0, 31)
      .removed(1, 40)
      .removed(2, 31)
      .begins(T, run(0))
      .tells(T, [run(1)])
    expect(archive.faults()).toEqual([[2, 'was removed, but no event records it']])
    expect(archive.remarks()).toEqual([])
    expect(archive.removals.untold).toBe(1)
    // Whoever says it again changes nothing.
    expect(new Archive().removed(0, 31).begins(T).begins(T, run(0)).faults()).toHaveLength(1)
    // Nor does anybody else.
    const forged = new Archive()
      .removed(0, 31)
      .begins(T)
      .custody(T, { kind: 'removed', segments: [run(0)], policy: 0, retention_days: 30 })
    expect(forged.faults()).toEqual([[0, 'was removed, but no event records it']])
  })

  it('accepts a removal event after the saved end only for removals during the save', () => {
    const saved = (after_days: number) => {
      const archive = new Archive({ whole: true, ends: 'saved' }).removed(0, after_days).begins(T)
      return [archive.faults().length, archive.remarks()]
    }
    expect(saved(39)).toEqual([0, ['0 was removed while this archive was saved: its removal event is after the saved end']])
    expect(saved(38)).toEqual([1, []])
  })

  it('reports an earlier removed entry that was changed', () => {
    const other = { ...run(0), chain_after: chain(9) }
    expect(new Archive().removed(0, 31).begins(T, other).faults()).toHaveLength(1)
  })

  it('reports an entry that differs from its removal event in chain or times, or is older than the event', () => {
    const told = (more: Partial<SegmentRun>, entry: Partial<RemovedSegmentEntry> = {}) =>
      new Archive()
        .removed(0, 40)
        .removed(1, 40, entry)
        .begins(T)
        .tells(T, [{ ...run(0, 1), ...more }])
        .faults()
    expect(told({})).toEqual([])
    expect(told({ chain_before: chain(7) })).toEqual([[0, 'has a different chain value before it compared with its removal event 2']])
    expect(told({ chain_after: chain(7) })).toEqual([[1, 'has a different chain value after it compared with its removal event 2']])
    const times = 'has messages with different times compared with its removal event 2'
    expect(told({ last_time: START + DAY })).toContainEqual([1, times])
    expect(told({ first_time: START + DAY })).toContainEqual([0, times])
    expect(told({}, { at: START + 39 * DAY })).toEqual([
      [1, expect.stringMatching(/^records its removal on .*, but removal event 2 is of /)],
    ])
    expect(told({ entries: 19 })).toEqual([[0, 'and the segments up to 1 had 20 entries, but their removal event 2 records 19']])
    // One of the two stands: it is held, or the audit died.
    expect(
      new Archive()
        .removed(1, 40)
        .begins(T)
        .tells(T, [{ ...run(0, 1), entries: 19 }])
        .faults(),
    ).toEqual([])
  })

  it('uses the newest removal event of an archive that was lost and sealed again', () => {
    const before = { ...run(0, 1), entries: 9_000, chain_before: chain(77), chain_after: chain(78) }
    const archive = () => new Archive().removed(0, 40).removed(1, 40).begins(T).tells(T, [before])
    expect(archive().faults().length).toBeGreaterThan(0)
    expect(
      archive()
        .tells(T, [run(0, 1)])
        .faults(),
    ).toEqual([])
  })

  it('checks the age at the time of the event by the policy version in the event, not by the entry', () => {
    const early = START + 21 * DAY
    expect(
      new Archive()
        .removed(0, 31)
        .begins(early)
        .tells(early, [run(0)])
        .faults(),
    ).toEqual([[0, 'was removed when its newest message was 20 days old: the defaults, in force at that time, keep 30 days']])
    const by = (retention_days: number) =>
      new Archive()
        .removed(0, 40)
        .policy(1, 7, START)
        .begins(T)
        .tells(T, [run(0)], { policy: 1, retention_days })
        .faults()
    expect(by(7)).toEqual([])
    expect(by(8)).toEqual([[0, 'was removed by policy version 1 according to event 3, but that version keeps 7 days and not 8']])
    // Nobody knows that version.
    expect(
      new Archive()
        .removed(0, 40)
        .begins(T)
        .tells(T, [run(0)], { policy: 9 })
        .faults(),
    ).toEqual([])
  })

  it('lets the event stored first win between a hold and a removal', () => {
    const key = keyOf(START + DAY / 2)
    const hold = { kind: 'hold', scope: { pass: key }, reason: 'dispute' }
    const archive = () => new Archive().removed(0, 40).begins(T)
    expect(
      archive()
        .custody(T, hold)
        .tells(T, [run(0)])
        .faults(),
    ).toHaveLength(1)
    expect(
      archive()
        .tells(T, [run(0)])
        .custody(T, hold)
        .faults(),
    ).toEqual([])
    expect(
      archive()
        .custody(T, hold)
        .custody(T, { kind: 'release', hold: 2 })
        .tells(T, [run(0)])
        .faults(),
    ).toEqual([])
    expect(
      archive()
        .custody(T, hold)
        .tells(T, [run(0)])
        .custody(T, { kind: 'release', hold: 2 })
        .faults(),
    ).toHaveLength(1)
    // It was told, and stayed as it was held; told again once it was released.
    expect(
      archive()
        .tells(T, [run(0)])
        .custody(T, hold)
        .custody(T, { kind: 'release', hold: 3 })
        .tells(T, [run(0)])
        .faults(),
    ).toEqual([])
  })

  it('requires a removal event for segments before the start of the archive', () => {
    const archive = (begins = 0) =>
      new Archive().custody(T, { kind: 'removals', begins, untold: [run(begins)] }, 'passover').tells(T, [run(2, 3)])
    const missing = (k: number, begins: number) => [
      [k, `is missing before segment ${begins}, the first in the archive: no event records its removal`],
    ]
    expect(archive().faults(FOREVER, 1)).toEqual([])
    expect(archive().faults(FOREVER, 2)).toEqual(missing(1, 2))
    expect(archive(1).faults(FOREVER, 4)).toEqual([])
    expect(archive(1).faults(FOREVER, 6)).toEqual(missing(4, 6))
    expect(new Archive().faults(FOREVER, 6)).toEqual([])
  })

  it('does not count custody events that were read ahead', () => {
    const archive = new Archive()
    const said = { v: 1, kind: 'removals', begins: 0, untold: [] }
    const ahead = { sequence: 1, time: FOREVER }
    archive.removals.hear(recorded({ ...ahead } as never, { version: 'custody', sender: 'passover', said }))
    archive.removed(0, 40).tells(T, [run(0)])
    expect(archive.faults()).toEqual([[0, 'was removed, but no event records it']])
  })
})
