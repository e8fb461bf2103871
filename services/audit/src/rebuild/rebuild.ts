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
  /** False: as the audit, if it was told to make no records (PASSOVER_LOG_ALL_PASSES); what is there is mended all the same. */
  log_all_passes?: boolean | undefined
  /** Applies output schemas: records say what they have against an output. */
  check?: CheckSchema | undefined
  /** Told now and then. */
  onProgress?: (told: RebuildProgress) => void
}

export interface RebuildProgress {
  passes: number
  /** How far back it has looked, server ms; absent once it writes. */
  back_to?: number
  rewritten: number
}

export interface Rebuilt {
  passes: number
  /** Records that were as they should be; that were missing or differed; that no pass stands behind; that are older than what can be read. */
  unchanged: number
  rewritten: number
  removed: number
  kept: number
  /** Passes without a record that were to get none (`log_all_passes: false`). */
  unlogged: number
}

/** As the audit has it: what is younger and open has no record yet. */
const OPEN_MS = 30_000
/** Passes compared, or records written, at once. */
const CONCURRENCY = 64
const MAX_TRIES = 8
const KEYS_PER_BLOCK = 1_024

/**
 * Makes the records of the bucket `passes` what the stored messages say, byte for byte, while audits go on writing (docs/architecture/audit-archive.md#records): each pass is
 * told again and compared; what is missing or differs is written by compare-and-set, oldest first; what no pass stands behind is deleted. Indexes of
 * the archive that were lost or damaged come first: `indexes` are their segments. Throws IndexesLost.
 */
export async function rebuildRecords(bus: Bus, options: RebuildOptions): Promise<Rebuilt & { indexes: number[] }> {
  const manifest = await Manifest.open(bus)
  const objects = await bus.objects(ARCHIVE_BUCKET)
  const table = await bus.table(PASSES_BUCKET, storedRecord)
  const { mended, lost } = await repairIndexes({ bus, manifest, objects })
  // Records would be taken for those of no pass.
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

/** Indexes of the archive cannot be read, nor made anew: their segments are damaged too. */
export class IndexesLost extends Error {
  override readonly name = 'IndexesLost'

  constructor(lost: RepairedIndexes['lost']) {
    const each = lost.map(({ k, why }) => `of segment ${k} (${why})`)
    super(`indexes of the archive cannot be made anew: ${each.join(', ')}; no record is touched`)
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

  /** The pass, where its record is not what it should be. */
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

  /** What came since then counts too: the pass is read once more, and again where somebody writes at the same time. */
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
      // An audit may have read on meanwhile.
      if (known !== undefined && known > last && known <= (await bus.bounds()).last) continue
      if (!(await written(table, { key: wanted.key, bytes, revision: standing?.revision ?? 0 }))) continue
      this.told.rewritten++
      return
    }
  }

  /** Records that the walk came by no pass for: written since, older than what can be read, or of no pass at all. */
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

  /** Under which key the record of a pass stands by what is stored of it; undefined: nothing is. */
  private async keyNow({ key, sequences }: PassRecord): Promise<string | undefined> {
    const [request] = sequences.requests
    const asked = request === undefined || sequences.work !== undefined ? {} : { request }
    const { memory, messages } = await loadPass(this.deps, key, { up_to: (await this.deps.bus.bounds()).last, ...asked })
    if (messages.length === 0 || (memory.journal.state === 'none' && !memory.request)) return undefined
    return (await recordOf(memory, this.deps.rules, this.options.check)).key
  }
}

/** The request of a pass that only was asked for: no step names it. */
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

/** Keys that were come by, 53 bits of each: a bucket has at most a million. */
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
