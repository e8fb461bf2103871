import type { Manifest, ManifestEntry } from '@passover/archive'
import type { Bus, Table } from '@passover/bus'
import type { PassRecord } from '@passover/schemas'
import { rowOf } from '../records/build-record.js'
import { MAX_ROWS, type RowCache } from '../records/row-cache.js'
import type { LoggingPolicy } from '../watchers/logging-policy.js'

/** How far the archive came. */
export interface ArchiveStart {
  newest: ManifestEntry | undefined
  from: number
}

/**
 * Puts rows of the newest records into memory, so that `list` need not read the bucket. A record that was written again left its old revision
 * empty, so how many were found says nothing: they are all only where the bucket holds no more than there is room for.
 */
export async function seedRows(table: Pick<Table<PassRecord>, 'entries' | 'extent' | 'newest'>, rows: RowCache): Promise<void> {
  const { entries } = await table.extent()
  const holdsMore = entries > MAX_ROWS
  if (holdsMore) rows.complete = false
  for await (const { value } of holdsMore ? table.newest(MAX_ROWS) : table.entries()) rows.put(rowOf(value))
}

/** Where projecting begins: what the newest segment says, or at the stream's beginning when the bucket is empty or a rebuild broke off. */
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

/** Whether a bucket holds nothing. Its newest write may be erased while older ones are there, so that is not asked for. */
export async function isEmpty(table: Pick<Table<unknown>, 'extent'>): Promise<boolean> {
  return (await table.extent()).entries === 0
}
