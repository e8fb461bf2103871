import { passError } from '@passover/core'
import type { Question, RepairAnswer } from '@passover/schemas'
import { noCounts, REPAIR_RESULTS, type Repair } from '../rebuild/record-repair.js'

export interface RepairAnswerDeps {
  repair: Repair
  seesAll: (name: string) => boolean
}

/**
 * Repairs the named records, and the index of a segment, for `passover audit rebuild` (decision 163). Answers E013 unless the asker may see every pass.
 */
export async function answerRepair(
  { repair, seesAll }: RepairAnswerDeps,
  asker: string,
  { passes = [], records = [], index }: Extract<Question, { op: 'repair' }>,
): Promise<RepairAnswer> {
  if (!seesAll(asker)) return { ok: false, error: passError('E013', 'Only people have records repaired') }
  const lost = index === undefined ? undefined : await repair.index(index)
  const done = [passes.length > 0 && (await repair.passes(passes)), records.length > 0 && (await repair.records(records))]
  const counts = noCounts()
  for (const part of done) if (part) for (const result of REPAIR_RESULTS) counts[result] += part[result]
  return { ok: true, ...counts, ...(lost !== undefined && { lost }) }
}
