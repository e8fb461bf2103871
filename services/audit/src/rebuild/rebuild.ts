import { randomBytes } from 'node:crypto'
import { ARCHIVE_BUCKET, Archive, Manifest } from '@passover/archive'
import { type Bus, decode, encode, type Table, TableError } from '@passover/bus'
import type { CheckSchema, JournalRules } from '@passover/core'
import type { PassKey, PassRecord } from '@passover/schemas'
import { loadPass } from '../pass/load-pass.js'
import type { PassMemory } from '../pass/pass-memory.js'
import { buildCheckedRecord, createdAt } from '../records/build-record.js'
import { compactRecordOf, decodeRecord, type StoredRecord, storedRecord } from '../records/compact-record.js'
import { firstSequence } from '../records/list-cursor.js'
import { PASSES_BUCKET, recordKey } from '../records/record-store.js'
import { mapInBatches } from '../runtime/concurrency.js'
import { hashPass, type PassHash } from '../runtime/pass-hash.js'
import { LoggingHistory } from './logging-history.js'
import type { WalkSource } from './ranges.js'
import { type RepairedIndexes, repairIndexes } from './repair-indexes.js'
import { ReverseSpool } from './reverse-spool.js'
import { type WalkDeps, walkPasses } from './walk-passes.js'

export interface RebuildOptions {
  source: WalkSource
  rules: JournalRules
  /** Set to false if the audit runs with PASSOVER_LOG_ALL_PASSES=false: no records are added, but existing ones are repaired. */
  log_all_passes?: boolean | undefined
  /** Applies output schemas, because records contain the schema faults of an output. */
  check?: CheckSchema | undefined
  /** Called from time to time. */
  onProgress?: (told: RebuildProgress) => void
}

export interface RebuildProgress {
  passes: number
  /** Server time in ms of the oldest message read so far; absent once the rebuild writes. */
  back_to?: number
  rewritten: number
}

export interface Rebuilt {
  passes: number
  /** Number of records that were correct. */
  unchanged: number
  /** Number of records that were missing or wrong. */
  rewritten: number
  /** Number of records without a pass. */
  removed: number
  /** Number of records that are older than what can be read. */
  kept: number
  /** Number of passes without a record that are not to get one (`log_all_passes: false`). */
  unlogged: number
}

/** Open passes younger than this many milliseconds are skipped, because the audit may not have written their records yet. */
const OPEN_MS = 30_000
/** Number of passes compared, or records written, concurrently. */
const CONCURRENCY = 64
const MAX_TRIES = 8
const KEYS_PER_BLOCK = 1_024

/**
 * Rebuilds the records of the bucket `passes` from the stored messages, byte for byte, while audits continue to write
 * (docs/architecture/audit-archive.md#records). First repairs lost or damaged indexes of the archive. Then builds each pass again and compares: a
 * missing or different record is written by compare-and-set, oldest first; a record without a pass is deleted.
 *
 * @returns the counts, and in `indexes` the segments whose indexes were repaired
 * @throws IndexesLost if an index cannot be repaired; no record is changed then
 */
export async function rebuildRecords(bus: Bus, options: RebuildOptions): Promise<Rebuilt & { indexes: number[] }> {
  const manifest = await Manifest.open(bus)
  const objects = await bus.objects(ARCHIVE_BUCKET)
  const table = await bus.table(PASSES_BUCKET, storedRecord)
  const { mended, lost } = await repairIndexes({ bus, manifest, objects })
  // Without the index, records of existing passes would look like records without a pass.
  if (lost.length > 0) throw new IndexesLost(lost)
  const archive = new Archive(manifest, objects)
  await archive.finder.prepare()
  const logged = await LoggingHistory.read(bus, options.log_all_passes ?? true)
  const rebuild = new Rebuild({ bus, manifest, objects, archive, table, logged, rules: options.rules }, options)
  try {
    return { ...(await rebuild.run()), indexes: mended }
  } finally {
    await archive.finder.close()
  }
}

/** Thrown if indexes of the archive can neither be read nor built again, because their segments are damaged too. */
export class IndexesLost extends Error {
  override readonly name = 'IndexesLost'

  constructor(lost: RepairedIndexes['lost']) {
    const each = lost.map(({ k, why }) => `of segment ${k} (${why})`)
    super(`indexes of the archive cannot be rebuilt: ${each.join(', ')}; no record was changed`)
  }
}

interface WrongRecord {
  key: PassKey
  asked: number | undefined
}

interface Deps extends WalkDeps {
  archive: Archive
  table: Table<PassRecord>
  logged: LoggingHistory
}

class Rebuild {
  private readonly seen = new KeySet()
  private readonly told: Rebuilt = { passes: 0, unchanged: 0, rewritten: 0, removed: 0, kept: 0, unlogged: 0 }

  constructor(
    private readonly deps: Deps,
    private readonly options: RebuildOptions,
  ) {}

  async run(): Promise<Rebuilt> {
    const { bus } = this.deps
    const { last } = await bus.bounds()
    await using spool = await ReverseSpool.open()
    let oldest = last
    for await (const { passes, sequence, time } of walkPasses(this.deps, this.options.source, last)) {
      oldest = Math.min(oldest, sequence)
      const wrong = await mapInBatches(passes, (memory) => this.compare(memory), CONCURRENCY)
      await spool.add(encode(wrong.filter((one) => one !== undefined)))
      this.options.onProgress?.({ passes: this.told.passes, ...(time === undefined ? {} : { back_to: time }), rewritten: 0 })
    }
    for await (const block of spool.backwards()) {
      const decoded = decode(block)
      await mapInBatches(decoded.ok ? (decoded.value as WrongRecord[]) : [], (one) => this.mend(one), CONCURRENCY)
      this.options.onProgress?.({ passes: this.told.passes, rewritten: this.told.rewritten })
    }
    await this.judgeUnseen(oldest)
    return this.told
  }

  /** Returns the pass if its record is missing or wrong. */
  private async compare(memory: PassMemory): Promise<WrongRecord | undefined> {
    const { bus, table, rules } = this.deps
    if (memory.journal.state === 'none' && !memory.request) return undefined
    const { key, stored } = await recordOf(memory, rules, this.options.check)
    this.seen.add(key)
    const begun = memory.request?.time ?? memory.begun
    if (!memory.ended && bus.now() - begun < OPEN_MS) return undefined
    this.told.passes++
    const standing = (await table.bytesOf(key))?.data
    if (!standing && !this.deps.logged.at(memory.last)) {
      this.told.unlogged++
      return undefined
    }
    if (!standing || Buffer.compare(standing, encode(stored)) !== 0) return { key: memory.key, asked: askedOf(memory) }
    this.told.unchanged++
    return undefined
  }

  /** Loads the pass again, with messages stored since the comparison, and writes its record. Tries again if another process writes concurrently. */
  private async mend({ key, asked }: WrongRecord): Promise<void> {
    const { bus, table, rules } = this.deps
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const { last } = await bus.bounds()
      const { memory } = await loadPass(this.deps, key, { up_to: last, ...(asked === undefined ? {} : { request: asked }) })
      const wanted = await recordOf(memory, rules, this.options.check)
      const standing = await table.bytesOf(wanted.key)
      const bytes = encode(wanted.stored)
      if (standing?.data && Buffer.compare(standing.data, bytes) === 0) {
        this.told.unchanged++
        return
      }
      const known = standing?.data && decodeRecord(standing.data)?.sequences.last
      // An audit may have read further meanwhile.
      if (known !== undefined && known > last && known <= (await bus.bounds()).last) continue
      if (!(await written(table, { key: wanted.key, bytes, revision: standing?.revision ?? 0 }))) continue
      this.told.rewritten++
      return
    }
  }

  /** Checks records for which the walk found no pass: written since, older than what can be read, or without a pass. */
  private async judgeUnseen(oldest: number): Promise<void> {
    await using spool = await ReverseSpool.open()
    let keys: string[] = []
    const keep = async () => {
      await spool.add(encode(keys))
      keys = []
    }
    await this.deps.table.read(({ key, data }) => {
      if (!data || this.seen.has(key)) return undefined
      const record = decodeRecord(data)
      if (!record || firstSequence(record.sequences) >= oldest) return keys.push(key) < KEYS_PER_BLOCK ? undefined : keep()
      this.told.kept++
      return undefined
    })
    if (keys.length > 0) await keep()
    for await (const block of spool.backwards()) {
      const decoded = decode(block)
      await mapInBatches(decoded.ok ? (decoded.value as string[]) : [], (key) => this.judge(key), CONCURRENCY)
    }
  }

  private async judge(key: string): Promise<void> {
    const { table } = this.deps
    const standing = (await table.bytesOf(key))?.data
    const record = standing && decodeRecord(standing)
    const real = record && (await this.keyNow(record))
    if (record && real === key) return await this.mend({ key: record.key, asked: record.sequences.requests[0] })
    if (!standing) return
    await table.delete(key)
    this.told.removed++
  }

  /** Returns the key that the record of a pass should have by its stored messages; `undefined` if there are none. */
  private async keyNow({ key, sequences }: PassRecord): Promise<string | undefined> {
    const [request] = sequences.requests
    const asked = request === undefined || sequences.work !== undefined ? {} : { request }
    const { memory, messages } = await loadPass(this.deps, key, { up_to: (await this.deps.bus.bounds()).last, ...asked })
    if (messages.length === 0 || (memory.journal.state === 'none' && !memory.request)) return undefined
    return (await recordOf(memory, this.deps.rules, this.options.check)).key
  }
}

/** Returns the sequence of the request of a pass without steps, since no step names it. */
function askedOf({ journal, request }: PassMemory): number | undefined {
  return journal.state === 'none' ? request?.sequence : undefined
}

function written(
  table: Table<PassRecord>,
  { key, bytes, revision }: { key: string; bytes: Uint8Array; revision: number },
): Promise<boolean> {
  return new Promise((resolve, reject) => {
    table.send(key, bytes, revision, (outcome) => {
      if (outcome.kind === 'stored') resolve(true)
      else if (outcome.kind === 'lost') resolve(false)
      else reject(new TableError(`${key} was not written: ${outcome.kind}`, outcome))
    })
  })
}

async function recordOf(
  memory: PassMemory,
  rules: JournalRules,
  check: CheckSchema | undefined,
): Promise<{ key: string; stored: StoredRecord }> {
  const { record } = await buildCheckedRecord(memory, rules, check)
  return { key: recordKey(memory.key, createdAt(record), record.session_id), stored: compactRecordOf(memory)?.stored ?? record }
}

/** Set of record keys, stored as 53 bits of a hash each. A bucket has at most a million keys. */
class KeySet {
  private readonly keys = new Set<number>()
  private readonly hashed: PassHash = { hash: 0, check: 0 }
  private readonly seed = randomBytes(4).readUInt32LE()

  add(key: string): void {
    this.keys.add(this.numberOf(key))
  }

  has(key: string): boolean {
    return this.keys.has(this.numberOf(key))
  }

  private numberOf(key: string): number {
    hashPass({ originator: '', subagent: '', id: key }, this.seed, this.hashed)
    return this.hashed.hash * 0x20_0000 + (this.hashed.check >>> 11)
  }
}
