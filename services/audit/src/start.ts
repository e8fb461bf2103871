import type { ManifestEntry } from '@passover/archive'
import type { Table } from '@passover/bus'
import type { PassRecord } from '@passover/schemas'
import type { ChunkEntry } from './chunk.js'
import { rowOf } from './describe.js'
import type { Parts } from './parts.js'
import { MAX_ROWS, type Rows } from './rows.js'

/** How far the archive came. */
export interface ArchiveStart {
  newest: ManifestEntry | undefined
  from: number
}

/** Rows of the newest records, so that `list` need not read the bucket. */
export async function seed(table: Table<PassRecord>, rows: Rows): Promise<void> {
  let found = 0
  for await (const { value } of table.newest(MAX_ROWS)) {
    rows.put(rowOf(value))
    found++
  }
  if (found === MAX_ROWS) rows.complete = false
}

/** Where projecting begins: what the newest segment says, or at the stream's beginning when the bucket is empty or a rebuild broke off. */
export async function projectionStart(
  parts: Pick<Parts, 'manifest' | 'deps' | 'logging'>,
  { table, start, built }: { table: Table<PassRecord>; start: ArchiveStart; built: boolean },
): Promise<{ from: number; rebuild: boolean }> {
  const { manifest, deps, logging } = parts
  const resume = Math.min(start.from, start.newest?.resume ?? start.from)
  if (!start.newest || (!logging.on && built)) return { from: resume, rebuild: false }
  const { first } = await deps.bus.bounds()
  const broken = await manifest.rebuilding()
  if (broken === undefined && built && !(await isEmpty(table))) return { from: resume, rebuild: false }
  const from = Math.min(resume, Math.max(1, broken ?? first))
  await manifest.beginRebuild(from)
  return { from, rebuild: true }
}

export async function isEmpty(table: Table<PassRecord> | Table<ChunkEntry>): Promise<boolean> {
  for await (const _ of table.newest(1)) return false
  return true
}
