import type { Manifest, ManifestEntry } from '@passover/archive'
import type { Bus, Table } from '@passover/bus'
import type { PassRecord } from '@passover/schemas'
import { rowOf } from '../records/build-record.js'
import { MAX_ROWS, type RowCache } from '../records/row-cache.js'
import type { LoggingPolicy } from '../watchers/logging-policy.js'

/** Position of the archive: its newest segment, and the sequence where archiving continues. */
export interface ArchiveStart {
  newest: ManifestEntry | undefined
  from: number
}

/**
 * Loads rows of the newest records into memory, so that `list` need not read the bucket. Rewritten records leave empty revisions behind, so the
 * number of rows found does not show whether all were loaded: that is certain only if the bucket has at most `MAX_ROWS` entries.
 */
export async function seedRows(table: Pick<Table<PassRecord>, 'entries' | 'extent' | 'newest'>, rows: RowCache): Promise<void> {
  const { entries } = await table.extent()
  const holdsMore = entries > MAX_ROWS
  if (holdsMore) rows.complete = false
  for await (const { value } of holdsMore ? table.newest(MAX_ROWS) : table.entries()) rows.put(rowOf(value))
}

/**
 * Returns the sequence where projecting starts: the resume position of the newest segment, or an earlier one if the records must be rebuilt because
 * the bucket is empty, the inbox is incomplete, a rebuild is requested, or an earlier rebuild was interrupted.
 */
export async function projectionStart(
  parts: { manifest: Manifest; deps: { bus: Bus }; logging: LoggingPolicy },
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

/** True if a bucket has no entries. Does not look for its newest one: that may be erased while older ones remain. */
export async function isEmpty(table: Pick<Table<unknown>, 'extent'>): Promise<boolean> {
  return (await table.extent()).entries === 0
}
