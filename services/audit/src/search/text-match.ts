import type { PassRecord } from '@passover/schemas'

/** Characters that no encoding changes: a run of them is the same in stored bytes as in the text. */
const PLAIN_RUN = /[A-Za-z0-9 _.,:;/-]+/g

/** A text to search for, case-insensitively. */
export interface Needle {
  /** True if a text contains it. */
  isIn(text: string): boolean
  /** True if stored bytes may contain it, judged without decoding them. */
  mayBeIn(bytes: Uint8Array): boolean
}

export function createNeedle(words: string): Needle {
  const wanted = words.toLowerCase()
  const [run = ''] = (wanted.match(PLAIN_RUN) ?? []).sort((a, b) => b.length - a.length)
  return { isIn: (text) => text.toLowerCase().includes(wanted), mayBeIn: (bytes) => run === '' || lowered(bytes).includes(run) }
}

function lowered(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1').toLowerCase()
}

/** True if the reason or the summary of a record contains the text. The summary of a failed pass is its error message. */
export function recordContains(record: PassRecord, needle: Needle): boolean {
  return needle.isIn(record.reason ?? record.entry?.reason ?? '') || needle.isIn(record.entry?.summary ?? '')
}

/**
 * Returns a record with only the texts that an agent may search. An originator may see a summary only after its release, and search results would
 * reveal its words before. `asker` is `undefined` if it may see every pass.
 */
export function withoutOutput(record: PassRecord, asker: string | undefined): PassRecord {
  const { key, status, decisions, entry } = record
  if (asker !== key.originator || !entry?.returned) return record
  const denied = decisions.some(({ item, verdict, counts }) => item === 'return' && verdict === 'deny' && counts !== false)
  if (status !== 'awaiting_release' && status !== 'expired' && !denied) return record
  return { ...record, entry: { ...entry, summary: '' } }
}

/** True if an agent may search the objective: a subagent only once the work is admitted. `asker` is `undefined` if it may see every pass. */
export function seesObjective({ key, sequences }: PassRecord, asker: string | undefined): boolean {
  return asker === undefined || asker === key.originator || sequences.work !== undefined
}
