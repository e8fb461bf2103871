import type { PassRecord } from '@passover/schemas'

/** What nothing in a codec changes: a run of these stands in stored bytes as it stands in the text. */
const PLAIN_RUN = /[A-Za-z0-9 _.,:;/-]+/g

/** A text that is looked for, whatever its case. */
export interface Needle {
  /** Whether a text has it. */
  isIn(text: string): boolean
  /** Whether stored bytes may have it: what is told without decoding them. */
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

/** Whether its reason or its summary has it (an error's message is the summary of what it ended). */
export function recordContains(record: PassRecord, needle: Needle): boolean {
  return needle.isIn(record.reason ?? record.entry?.reason ?? '') || needle.isIn(record.entry?.summary ?? '')
}

/**
 * What of a record an agent may look for words in: a summary is its originator's to see when it is released, and by words that are found or not it
 * would be told before. `asker`: undefined for who sees all.
 */
export function withoutOutput(record: PassRecord, asker: string | undefined): PassRecord {
  const { key, status, decisions, entry } = record
  if (asker !== key.originator || !entry?.returned) return record
  const denied = decisions.some(({ item, verdict, counts }) => item === 'return' && verdict === 'deny' && counts !== false)
  if (status !== 'awaiting_release' && status !== 'expired' && !denied) return record
  return { ...record, entry: { ...entry, summary: '' } }
}

/** Whether an agent may look for words in the objective: a subagent only once the work was admitted. `asker`: undefined for who sees all. */
export function seesObjective({ key, sequences }: PassRecord, asker: string | undefined): boolean {
  return asker === undefined || asker === key.originator || sequences.work !== undefined
}
