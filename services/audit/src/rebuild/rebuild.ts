import { randomBytes } from 'node:crypto'
import { ARCHIVE_BUCKET, Archive, Manifest } from '@passover/archive'
import { type Bus, decode, encode, type Table } from '@passover/bus'
import type { CheckSchema, JournalRules } from '@passover/core'
import { MAX_REPAIRS, type PassRecord } from '@passover/schemas'
import type { PassMemory } from '../pass/pass-memory.js'
import { decodeRecord, storedRecord } from '../records/compact-record.js'
import { firstSequence } from '../records/list-cursor.js'
import { PASSES_BUCKET } from '../records/record-store.js'
import { mapInBatches } from '../runtime/concurrency.js'
import { hashPass, type PassHash } from '../runtime/pass-hash.js'
import { LoggingHistory } from './logging-history.js'
import type { WalkSource } from './ranges.js'
import { REPAIR_RESULTS, RecordRepair, type Repair, type RepairCounts, type RepairedPass, recordOf } from './record-repair.js'
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
  /** Writes what is missing or wrong, such as an audit service that is asked to; without it, this process writes. */
  repair?: Repair | undefined
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
/** Number of passes compared concurrently. */
const CONCURRENCY = 64
const KEYS_PER_BLOCK = 1_024

/**
 * Rebuilds the records of the bucket `passes` from the stored messages, byte for byte, while audits continue to write
 * (docs/architecture/audit-archive.md#records). First repairs lost or damaged indexes of the archive. Then builds each pass again and compares: a
 * missing or different record is written by compare-and-set, oldest first; a record without a pass is deleted. Only `options.repair` writes.
 *
 * @returns the counts, and in `indexes` the segments whose indexes were repaired
 * @throws IndexesLost if an index cannot be repaired; no record is changed then
 */
export async function rebuildRecords(bus: Bus, options: RebuildOptions): Promise<Rebuilt & { indexes: number[] }> {
  const manifest = await Manifest.open(bus)
  const objects = await bus.objects(ARCHIVE_BUCKET)
  const table = await bus.table(PASSES_BUCKET, storedRecord)
  const { rules, check, source } = options
  const archive = new Archive(manifest, objects)
  const logged = await LoggingHistory.read(bus, options.log_all_passes ?? true)
  const deps = { bus, manifest, objects, archive, table, rules, check }
  const repair = options.repair ?? new RecordRepair({ ...deps, logged: () => Promise.resolve(logged) }, source)
  const { mended, lost } = await repairIndexes({ manifest, objects }, (k) => repair.index(k))
  // Without the index, records of existing passes would look like records without a pass.
  if (lost.length > 0) throw new IndexesLost(lost)
  const rebuild = new Rebuild({ ...deps, logged, repair }, options)
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

interface Deps extends WalkDeps {
  archive: Archive
  table: Table<PassRecord>
  logged: LoggingHistory
  repair: Repair
}

class Rebuild {
  readonly #deps: Deps
  readonly #options: RebuildOptions
  readonly #seen = new KeySet()
  readonly #told: Rebuilt = { passes: 0, unchanged: 0, rewritten: 0, removed: 0, kept: 0, unlogged: 0 }

  constructor(deps: Deps, options: RebuildOptions) {
    this.#deps = deps
    this.#options = options
  }

  async run(): Promise<Rebuilt> {
    const { bus } = this.#deps
    const { last } = await bus.bounds()
    await using spool = await ReverseSpool.open()
    let oldest = last
    for await (const { passes, sequence, time } of walkPasses(this.#deps, this.#options.source, last)) {
      oldest = Math.min(oldest, sequence)
      const wrong = await mapInBatches(passes, (memory) => this.#compare(memory), CONCURRENCY)
      await spool.add(encode(wrong.filter((one) => one !== undefined)))
      this.#options.onProgress?.({ passes: this.#told.passes, ...(time === undefined ? {} : { back_to: time }), rewritten: 0 })
    }
    for await (const block of spool.backwards()) {
      const decoded = decode(block)
      const wrong = decoded.ok ? (decoded.value as RepairedPass[]) : []
      for (let at = 0; at < wrong.length; at += MAX_REPAIRS) this.#count(await this.#deps.repair.passes(wrong.slice(at, at + MAX_REPAIRS)))
      this.#options.onProgress?.({ passes: this.#told.passes, rewritten: this.#told.rewritten })
    }
    await this.#judgeUnseen(oldest)
    return this.#told
  }

  /** Returns the pass if its record is missing or wrong. */
  async #compare(memory: PassMemory): Promise<RepairedPass | undefined> {
    const { bus, table, rules } = this.#deps
    if (memory.journal.state === 'none' && !memory.request) return undefined
    const { key, stored } = await recordOf(memory, rules, this.#options.check)
    this.#seen.add(key)
    const begun = memory.request?.time ?? memory.begun
    if (!memory.ended && bus.now() - begun < OPEN_MS) return undefined
    this.#told.passes++
    const standing = (await table.bytesOf(key))?.data
    if (!standing && !this.#deps.logged.at(memory.last)) {
      this.#told.unlogged++
      return undefined
    }
    if (!standing || Buffer.compare(standing, encode(stored)) !== 0) return { ...memory.key, request: requestOf(memory) }
    this.#told.unchanged++
    return undefined
  }

  /** Checks records for which the walk found no pass: written since, older than what can be read, or without a pass. */
  async #judgeUnseen(oldest: number): Promise<void> {
    await using spool = await ReverseSpool.open()
    let keys: string[] = []
    const keep = async () => {
      await spool.add(encode(keys))
      keys = []
    }
    await this.#deps.table.read(({ key, data }) => {
      if (!data || this.#seen.has(key)) return undefined
      const record = decodeRecord(data)
      if (!record || firstSequence(record.sequences) >= oldest) return keys.push(key) < KEYS_PER_BLOCK ? undefined : keep()
      this.#told.kept++
      return undefined
    })
    if (keys.length > 0) await keep()
    for await (const block of spool.backwards()) {
      const decoded = decode(block)
      const keys = decoded.ok ? (decoded.value as string[]) : []
      for (let at = 0; at < keys.length; at += MAX_REPAIRS) this.#count(await this.#deps.repair.records(keys.slice(at, at + MAX_REPAIRS)))
    }
  }

  #count(done: RepairCounts): void {
    for (const result of REPAIR_RESULTS) this.#told[result] += done[result]
  }
}

/** Returns the sequence of the request of a pass without steps, since no step names it. */
function requestOf({ journal, request }: PassMemory): number | undefined {
  return journal.state === 'none' ? request?.sequence : undefined
}

/** Set of record keys, stored as 53 bits of a hash each. A bucket has at most a million keys. */
class KeySet {
  readonly #keys = new Set<number>()
  readonly #hashed: PassHash = { hash: 0, check: 0 }
  readonly #seed = randomBytes(4).readUInt32LE()

  add(key: string): void {
    this.#keys.add(this.#numberOf(key))
  }

  has(key: string): boolean {
    return this.#keys.has(this.#numberOf(key))
  }

  #numberOf(key: string): number {
    hashPass({ originator: '', subagent: '', id: key }, this.#seed, this.#hashed)
    return this.#hashed.hash * 0x20_0000 + (this.#hashed.check >>> 11)
  }
}
