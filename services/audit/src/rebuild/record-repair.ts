import type { Manifest } from '@passover/archive'
import { segmentOf } from '@passover/archive'
import { encode, type ObjectStore, type Table, TableError } from '@passover/bus'
import type { CheckSchema, JournalRules } from '@passover/core'
import { keyText, type PassKey, type PassRecord } from '@passover/schemas'
import { type LoadDeps, loadPass } from '../pass/load-pass.js'
import type { PassMemory } from '../pass/pass-memory.js'
import { noteKey } from '../pass/unanswered-requests.js'
import { buildCheckedRecord, createdAt } from '../records/build-record.js'
import { compactRecordOf, decodeRecord, type StoredRecord } from '../records/compact-record.js'
import { firstSequence } from '../records/list-cursor.js'
import { recordKey } from '../records/record-store.js'
import type { LoggingHistory } from './logging-history.js'
import { readableSegments, type WalkSource } from './ranges.js'
import { repairIndex } from './repair-indexes.js'

/** A pass whose record may be missing or wrong. `request`: the sequence of its request, if no step names it. */
export interface RepairedPass extends PassKey {
  request?: number | undefined
}

/** What became of a record (`repairAnswer`). */
export const REPAIR_RESULTS = ['unchanged', 'rewritten', 'removed', 'kept', 'unlogged'] as const

/** Number of records for each result. */
export type RepairCounts = Record<(typeof REPAIR_RESULTS)[number], number>

/** Makes records, and indexes of the archive, what the stored messages say. Reads everything itself, so a caller cannot put anything into them. */
export interface Repair {
  /** Writes the records of these passes that are missing or wrong. */
  passes(passes: readonly RepairedPass[]): Promise<RepairCounts>
  /** Writes or deletes the records under these keys of the bucket, as what is stored of their passes says. */
  records(keys: readonly string[]): Promise<RepairCounts>
  /** Repairs the index of a segment. Returns the reason if that is not possible. */
  index(k: number): Promise<string | undefined>
}

export interface RecordRepairDeps extends LoadDeps {
  manifest: Manifest
  objects: ObjectStore
  table: Table<PassRecord>
  check: CheckSchema | undefined
  /** Reads which passes are to have records. Called only if one is missing. */
  logged: () => Promise<LoggingHistory>
  /** True if the pass that begins at this sequence is being erased, so that no record of it may be written. */
  isGoing?: (sequence: number) => boolean
}

/** `undefined`: there is nothing to repair. */
type Result = keyof RepairCounts | undefined

const MAX_TRIES = 8

export class RecordRepair implements Repair {
  readonly #deps: RecordRepairDeps
  readonly #source: WalkSource

  constructor(deps: RecordRepairDeps, source: WalkSource = 'archive') {
    this.#deps = deps
    this.#source = source
  }

  async passes(passes: readonly RepairedPass[]): Promise<RepairCounts> {
    await this.#untilIndexed()
    return countsOf(await Promise.all(passes.map((pass) => this.#mend(pass))))
  }

  async records(keys: readonly string[]): Promise<RepairCounts> {
    await this.#untilIndexed()
    const { sealed, oldest } = await readableSegments(this.#deps, this.#source)
    const isReadable = (k: number) => k >= oldest && !sealed.get(k)?.removed
    return countsOf(await Promise.all(keys.map((key) => this.#judge(key, isReadable))))
  }

  index(k: number): Promise<string | undefined> {
    return repairIndex(this.#deps, k)
  }

  /** Waits until every index of the archive is read. Before that, older passes seem to have no messages, and their records would be deleted. */
  #untilIndexed(): Promise<void> {
    return this.#deps.archive.finder.prepare()
  }

  /** Loads the pass, with messages stored since the comparison, and writes its record. Tries again if another process writes concurrently. */
  async #mend({ request, ...key }: RepairedPass): Promise<Result> {
    const { bus, table, rules, check, logged, isGoing } = this.#deps
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const { last } = await bus.bounds()
      const { memory } = await loadPass(this.#deps, key, { up_to: last, ...(request === undefined ? {} : { request }) })
      if (!(await beginsPass(this.#deps, memory)) || isGoing?.(memory.first)) return undefined
      const wanted = await recordOf(memory, rules, check)
      const standing = await table.bytesOf(wanted.key)
      const bytes = encode(wanted.stored)
      if (standing?.data && Buffer.compare(standing.data, bytes) === 0) return 'unchanged'
      if (!standing?.data && !(await logged()).at(memory.last)) return 'unlogged'
      const known = standing?.data && decodeRecord(standing.data)?.sequences.last
      // An audit may have read further meanwhile.
      if (known !== undefined && known > last && known <= (await bus.bounds()).last) continue
      if (await written(table, { key: wanted.key, bytes, revision: standing?.revision ?? 0 })) return 'rewritten'
    }
    // Others wrote the record each time, and they know at least as much.
    return undefined
  }

  async #judge(key: string, isReadable: (k: number) => boolean): Promise<Result> {
    const { table } = this.#deps
    const standing = (await table.bytesOf(key))?.data
    if (!standing) return undefined
    const record = decodeRecord(standing)
    const real = record && (await this.#keyNow(record))
    if (record && real === key) return await this.#mend({ ...record.key, request: record.sequences.requests[0] })
    if (record && real === undefined && !isReadable(segmentOf(firstSequence(record.sequences)))) return 'kept'
    await table.delete(key)
    return 'removed'
  }

  /** Returns the key that the record of a pass should have by its stored messages; `undefined` if there are none. */
  async #keyNow({ key, sequences }: PassRecord): Promise<string | undefined> {
    const [request] = sequences.requests
    const asked = request === undefined || sequences.work !== undefined ? {} : { request }
    const { memory, messages } = await loadPass(this.#deps, key, { up_to: (await this.#deps.bus.bounds()).last, ...asked })
    if (messages.length === 0 || !(await beginsPass(this.#deps, memory))) return undefined
    return (await recordOf(memory, this.#deps.rules, this.#deps.check)).key
  }
}

/**
 * True if the pass has a step, or an unanswered request of its id. A request that the dispatcher refused under the id `bad-<sequence>` begins no pass
 * of the id that it says (docs/architecture/malformed-requests.md).
 */
export async function beginsPass(deps: LoadDeps, { key, journal, request }: PassMemory): Promise<boolean> {
  if (journal.state !== 'none') return true
  const own = request && noteKey(request)
  if (!request || !own || keyText(own) !== keyText(key)) return false
  const apart = { ...key, id: deps.bus.subjects.badId(request.sequence) }
  const { memory } = await loadPass(deps, apart, { up_to: (await deps.bus.bounds()).last })
  return memory.journal.state === 'none'
}

export async function recordOf(
  memory: PassMemory,
  rules: JournalRules,
  check: CheckSchema | undefined,
): Promise<{ key: string; stored: StoredRecord }> {
  const { record } = await buildCheckedRecord(memory, rules, check)
  return { key: recordKey(memory.key, createdAt(record), record.session_id), stored: compactRecordOf(memory)?.stored ?? record }
}

function written(
  table: Table<PassRecord>,
  { key, bytes, revision }: { key: string; bytes: Uint8Array; revision: number },
): Promise<boolean> {
  return new Promise((resolve, reject) => {
    table.send(key, bytes, revision, (outcome) => {
      if (outcome.kind === 'stored') resolve(true)
      else if (outcome.kind === 'lost') resolve(false)
      else reject(new TableError(`${key} was not written: ${outcome.description}`, outcome))
    })
  })
}

export function noCounts(): RepairCounts {
  return { unchanged: 0, rewritten: 0, removed: 0, kept: 0, unlogged: 0 }
}

function countsOf(results: readonly Result[]): RepairCounts {
  const counts = noCounts()
  for (const result of results) if (result) counts[result]++
  return counts
}
