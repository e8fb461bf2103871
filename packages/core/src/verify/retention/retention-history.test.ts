import { policyDigest } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { RetentionHistory, SLACK_MS } from './retention-history.js'

const DAY = 86_400_000

function version(number: number, retention_days?: number) {
  const document = (retention_days === undefined ? {} : { audit: { retention_days } }) as never
  return { v: 1, version: number, base: number - 1, document, digest: policyDigest(document) }
}

describe('Retentions', () => {
  it('knows the defaults until a version says otherwise, and of a span the least that was in force in it', () => {
    const told = new RetentionHistory(true)
    told.take({ body: version(1, 90), time: 10 })
    told.take({ body: version(2, 7), time: 20 })
    told.take({ body: version(3), time: 30 })
    const least = (from: number, to: number) => told.least(from, to)?.version
    expect([least(0, 5), least(0, 15), least(12, 18), least(12, 20), least(25, 35), least(40, 50)]).toEqual([0, 0, 1, 2, 2, 3])
    expect(told.least(40, 50)?.days).toBe(30)
    expect([0, 1, 2, 3, 4].map((number) => told.daysOf(number))).toEqual([30, 90, 7, 30, undefined])
  })

  it('passes over what is no version, was touched, or came too late', () => {
    const told = new RetentionHistory(true)
    told.take({ body: version(1, 90), time: 10 })
    told.take({ body: 'nonsense', time: 11 })
    told.take({ body: { ...version(2, 1), digest: 'a'.repeat(64) }, time: 12 })
    told.take({ body: version(1, 1), time: 13 })
    expect(told.least(20, 20)).toMatchObject({ version: 1, days: 90 })
  })

  it('says nothing of the time before the first that is known', () => {
    const told = new RetentionHistory(false)
    expect([told.least(1, 2), told.keptUntil(1)]).toEqual([undefined, undefined])
    told.take({ body: version(4, 5), time: 10 })
    expect([told.least(1, 20), told.keptUntil(9), told.least(10, 20)?.days]).toEqual([undefined, undefined, 5])
    const gap = new RetentionHistory(true)
    gap.take({ body: version(3, 5), time: 10 })
    expect([gap.least(1, 2), gap.least(11, 12)?.version]).toEqual([undefined, 3])
  })

  it('keeps what was stored as long as was promised then, whatever is said later; and longer where it still stood when more was asked', () => {
    const shorter = new RetentionHistory(true)
    shorter.take({ body: version(1, 1), time: 10 })
    expect(shorter.keptUntil(5)).toBe(5 + 30 * DAY)
    expect(shorter.keptUntil(11)).toBe(11 + DAY)
    const longer = new RetentionHistory(true)
    longer.take({ body: version(1, 90), time: 10 * DAY })
    expect(longer.keptUntil(0)).toBe(90 * DAY)
    const late = new RetentionHistory(true)
    late.take({ body: version(1, 90), time: 40 * DAY })
    expect(late.keptUntil(0)).toBe(30 * DAY)
    // An audit may not have read the newer version yet.
    const just = (since: number) => {
      const told = new RetentionHistory(true)
      told.take({ body: version(1, 90), time: since })
      return told.keptUntil(0)
    }
    expect([just(30 * DAY - SLACK_MS + 1), just(30 * DAY - SLACK_MS)]).toEqual([30 * DAY, 90 * DAY])
  })
})
