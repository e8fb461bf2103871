import type { Bus } from '@passover/bus'
import { askIndex } from '@passover/sdk/people'
import type { Findings } from './findings.js'

/** What was compared of the audit's index; `none`: no audit answered that could, or it still reads. */
export type IndexCounts = { records: number; wrong: number } | 'none'

/**
 * Has the audit compare its index with the records. Filtered queries and statistics rest on the index, so a line that differs is a fault (rule
 * `index`), though nothing that is stored is wrong: `passover audit rebuild` mends it.
 */
export async function judgeIndex(bus: Bus, findings: Pick<Findings, 'fault'>): Promise<IndexCounts> {
  const compared = await askIndex(bus)
  if (!compared?.complete) return 'none'
  const { records, wrong, shown } = compared
  for (const { pass, what } of shown)
    findings.fault({ rule: 'index', ...(pass === undefined ? {} : { pass }), what: `the audit's index has ${what}` })
  const more = wrong - shown.length
  if (more > 0) findings.fault({ rule: 'index', what: `the audit's index has ${more} more lines that differ from their records` })
  return { records, wrong }
}
