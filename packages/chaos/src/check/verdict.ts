import type { Judgement, PromiseName, Violation } from './types.js'

export interface PromiseVerdict {
  holds: boolean
  /** Number of items checked, by kind. */
  counts: Record<string, number>
  violations: string[]
}

export interface Verdict {
  ok: boolean
  promises: Record<PromiseName, PromiseVerdict>
  totals: Judgement['totals']
}

export const PROMISES: readonly PromiseName[] = ['P1', 'P2', 'P3', 'P4', 'P5']

/** Combines the results of all checks into a verdict. */
export function verdictOf(totals: Judgement['totals'], found: readonly { counts: Counts; violations: readonly Violation[] }[]): Verdict {
  const promises = Object.fromEntries(
    PROMISES.map((promise) => {
      const violations = found.flatMap((one) => one.violations).filter((one) => one.promise === promise)
      const counts = Object.assign({}, ...found.map((one) => one.counts[promise] ?? {})) as Record<string, number>
      return [promise, { holds: violations.length === 0, counts, violations: violations.map(({ what }) => what) }]
    }),
  ) as Record<PromiseName, PromiseVerdict>
  return { ok: Object.values(promises).every(({ holds }) => holds), promises, totals }
}

export type Counts = Partial<Record<PromiseName, Record<string, number>>>

export interface Checked {
  counts: Counts
  violations: Violation[]
}
