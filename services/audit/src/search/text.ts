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

export function needleOf(words: string): Needle {
  const wanted = words.toLowerCase()
  const [run = ''] = (wanted.match(PLAIN_RUN) ?? []).sort((a, b) => b.length - a.length)
  return { isIn: (text) => text.toLowerCase().includes(wanted), mayBeIn: (bytes) => run === '' || lowered(bytes).includes(run) }
}

function lowered(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1').toLowerCase()
}

/** Whether its reason or its summary has it (an error's message is the summary of what it ended). */
export function recordSays(record: PassRecord, needle: Needle): boolean {
  return needle.isIn(record.reason ?? record.entry?.reason ?? '') || needle.isIn(record.entry?.summary ?? '')
}
