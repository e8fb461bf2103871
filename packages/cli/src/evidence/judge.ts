import type { ArchivedEvent } from '@passover/archive'
import type { Subjects } from '@passover/bus'
import type { LookAtPart } from '../verify/parts.js'
import { Judging, type Verdict, verdictOf } from '../verify/run.js'

/** Judges the messages of a pass, and of those above it, by all the rules: what is not among them is not known. */
export async function judgeEntries(
  { entries, subjects }: { entries: readonly ArchivedEvent[]; subjects: Subjects },
  options: { id_window_ms: number; parts?: LookAtPart },
): Promise<Verdict> {
  const judging = new Judging({ ...options, selection: true }, subjects)
  for (const event of entries) await judging.event(event)
  await judging.segment()
  return verdictOf(judging, { segments: 0, head: undefined, values: [], begins: undefined, removed: undefined }, options)
}
