import { relative, resolve } from 'node:path'
import { ARCHIVE_BUCKET, Manifest, type ManifestEntry, segmentOf } from '@passover/archive'
import { buildCheckedRecord, createdAt, LoggingHistory, ReverseSpool, type WalkedPass, walkPasses } from '@passover/audit'
import type { Bus } from '@passover/bus'
import type { CheckSchema, JournalRules } from '@passover/core'
import { activePolicy, openPolicySession } from '@passover/operator'
import type { PassOverAuditEntry, PassRecord } from '@passover/schemas'
import { outputSchemas } from '@passover/validation'
import { connectPerson } from '../connection/connect-person.js'
import type { Context } from '../connection/context.js'
import { readIdWindow } from '../connection/id-window.js'
import { CliFailure } from '../errors.js'
import { dateTime } from '../terminal/duration.js'
import { count } from '../terminal/text.js'
import { ExportFiles, type KeptLines, lineKey, monthOf, writeCsv } from './export-files.js'
import { type AuditSummary, type ExportedPass, SummaryBuilder } from './export-summary.js'

export interface ExportFlags {
  out?: string
  csv?: true
  since?: number
  session?: string
}

const DEFAULT_FOLDER = '.opencode/pass-over-logs'
const SUMMARY_FILE = 'audit-summary.json'
const PROGRESS_DELAY_MS = 1_000

/** Writes the audit log to files. Throws CliFailure E013 if the policy says that passes are not logged. */
export async function runExport(context: Context, flags: ExportFlags): Promise<number> {
  const { terminal, env } = context
  await using bus = await connectPerson(context)
  const { audit } = (await activePolicy(await openPolicySession(bus))).document
  if (audit?.log_all_passes === false)
    throw new CliFailure('E013', 'passes are not exported: the policy sets log_all_passes: false', {
      hint: 'passover policy edit changes that; stream and archive contain all passes anyway',
    })
  const folder = resolve(context.directory, flags.out ?? audit?.log_directory ?? DEFAULT_FOLDER)
  const progress = terminal.progress()
  const begun = Date.now()
  const say = (text: string) => {
    if (Date.now() - begun > PROGRESS_DELAY_MS) progress.say(text)
  }
  try {
    const log_all_passes = env.PASSOVER_LOG_ALL_PASSES !== 'false'
    const wanted = { since: flags.since, session: flags.session, csv: flags.csv === true, log_all_passes }
    const done = await exportPasses(bus, { folder, ...wanted }, say)
    const shown = { ...done, folder }
    terminal.show(shown, () =>
      [
        `${count(done.passes, 'pass', 'passes')} in ${count(done.files.length, 'file')} under ${relative(context.directory, folder) || '.'}`,
        ...(done.unlogged > 0 ? [`${count(done.unlogged, 'pass', 'passes')} left out, because log_all_passes was false`] : []),
      ].join('\n'),
    )
  } finally {
    progress.stop()
  }
  return 0
}

export interface ExportRequest {
  folder: string
  /** Only passes requested at or after this time (ms). Existing files keep their older lines. */
  since?: number | undefined
  session?: string | undefined
  csv: boolean
  /** False if the audit service is configured to make no records (PASSOVER_LOG_ALL_PASSES=false). */
  log_all_passes: boolean
}

export interface ExportResult {
  passes: number
  /** Number of passes left out because they were not to be logged (`log_all_passes: false`). */
  unlogged: number
  files: string[]
  summary: AuditSummary
}

/**
 * Reads archive and stream, newest first and in bounded memory, and writes the passes oldest first. Writes the summary only if neither
 * `since` nor `session` is given.
 */
export async function exportPasses(bus: Bus, request: ExportRequest, say: (text: string) => void): Promise<ExportResult> {
  await using schemas = outputSchemas()
  const check: CheckSchema = (schema, value, subagent) => schemas.checkFor(subagent, schema, value)
  await using spool = await ReverseSpool.open()
  const since = request.since ?? Number.NEGATIVE_INFINITY
  let oldest: WalkedPass | undefined
  const rules = await readIdWindow(bus)
  const logged = await LoggingHistory.read(bus, request.log_all_passes)
  const manifest = await Manifest.open(bus)
  const removed = new Removed(await manifest.all())
  const again = new Set<string>()
  const told = { passes: 0, unlogged: 0 }
  for await (const walked of everyPass(bus, manifest, rules)) {
    oldest = walked
    const found = await exported(walked, { session: request.session, since, check, rules })
    const noted = found.filter(({ sequences }) => sequences.some((sequence) => logged.at(sequence)))
    const passes: Found[] = []
    for (const one of noted) {
      const stands = one.entry.timestamp < removed.before ? await removed.standing(bus, one) : 'beside'
      if (stands !== 'in part') passes.push(one)
      if (stands === 'in stream') again.add(lineKey(one.entry))
    }
    told.passes += passes.length
    told.unlogged += found.length - noted.length
    if (passes.length > 0) await spool.add(Buffer.from(JSON.stringify(passes)))
    say(`${count(told.passes, 'pass', 'passes')}${walked.time === undefined ? '' : `, back to ${dateTime(walked.time)}`}`)
    if (walked.time !== undefined && walked.time < since) break
  }
  // Passes older than the archive itself keep the lines of earlier exports.
  const lost = oldest && oldest.sequence > 0 ? (oldest.time ?? 0) : Number.NEGATIVE_INFINITY
  // Includes segments that were removed while this export was reading.
  const { before } = new Removed(await manifest.all())
  const kept = {
    before: Math.max(since, lost, before),
    isAgain: (entry: PassOverAuditEntry) => again.size > 0 && again.has(lineKey(entry)),
  }
  return { ...(await written(spool, request, kept)), unlogged: told.unlogged }
}

/** Segments that retention removed from the archive. Older segments may remain because of holds or open passes. */
class Removed {
  /** Some messages of passes requested before this time (ms) may be gone; later passes are complete. */
  readonly before: number
  readonly #segments: ReadonlySet<number>

  constructor(entries: readonly ManifestEntry[]) {
    const gone = entries.filter(({ removed }) => removed)
    this.#segments = new Set(gone.map(({ k }) => k))
    const times = gone.map(({ count, last_time }) => (count > 0 ? last_time + 1 : Number.NEGATIVE_INFINITY))
    this.before = times.reduce((latest, time) => Math.max(latest, time), Number.NEGATIVE_INFINITY)
  }

  /**
   * Decides how a pass requested before that time is exported.
   *
   * - `in stream`: the stream still has its last message, so nothing of it is gone; its line is written again.
   * - `beside`: messages after its end may be gone; an existing line is kept, and a new one is written only if there is none.
   * - `in part`: its request or a segment in between is gone; it is not written.
   */
  async standing(bus: Bus, { asked, sequences }: Found): Promise<'in stream' | 'beside' | 'in part'> {
    const last = sequences.at(-1) ?? 0
    if ((await bus.journal.message(last)) !== undefined) return 'in stream'
    return asked === undefined || this.#isBetween(segmentOf(asked), segmentOf(last)) ? 'in part' : 'beside'
  }

  #isBetween(from: number, to: number): boolean {
    for (let k = from; k <= to; k++) if (this.#segments.has(k)) return true
    return false
  }
}

async function* everyPass(bus: Bus, manifest: Manifest, rules: JournalRules): AsyncGenerator<WalkedPass> {
  const objects = await bus.objects(ARCHIVE_BUCKET)
  yield* walkPasses({ bus, manifest, objects, rules }, 'archive', (await bus.bounds()).last)
}

interface Narrowed {
  since: number
  session?: string | undefined
  check: CheckSchema
  rules: JournalRules
}

/**
 * A pass to export. `asked` is the sequence of its request, `sequences` those of its end and of its last message. It is exported if passes
 * were logged at one of the two.
 */
type Found = ExportedPass & { asked: number | undefined; sequences: number[] }

async function exported({ passes }: WalkedPass, { since, session, check, rules }: Narrowed): Promise<Found[]> {
  const found: Found[] = []
  for (const memory of passes) {
    const { record } = await buildCheckedRecord(memory, rules, check)
    const { entry, sequences } = record
    if (!entry || entry.timestamp < since || (session !== undefined && entry.session_id !== session)) continue
    found.push({
      entry,
      code: record.error?.code,
      wall_ms: wallOf(record),
      asked: sequences.requests[0],
      sequences: [sequences.return ?? sequences.last, sequences.last],
    })
  }
  return found
}

function wallOf(record: PassRecord): number | undefined {
  return record.ended_at === undefined ? undefined : Math.max(0, record.ended_at - createdAt(record))
}

async function written(spool: ReverseSpool, request: ExportRequest, kept: KeptLines): Promise<Omit<ExportResult, 'unlogged'>> {
  const { folder } = request
  const summing = new SummaryBuilder()
  await using files = new ExportFiles(folder, kept)
  const months = new Set<string>()
  for await (const block of spool.backwards()) {
    const passes = JSON.parse(block.toString('utf8')) as ExportedPass[]
    const counted = passes.filter(({ entry }) => entry.timestamp >= kept.before)
    for (const pass of counted) summing.add(pass)
    for (const { entry } of passes) months.add(monthOf(entry.timestamp))
    await files.add(passes.map(({ entry }) => entry))
  }
  const summary = { ...summing.told(), ...(Number.isFinite(kept.before) ? { counted_since: kept.before } : {}) }
  if (request.since === undefined && request.session === undefined) await files.write(SUMMARY_FILE, `${JSON.stringify(summary, null, 2)}\n`)
  const paths = await files.finish()
  if (request.csv) for (const month of [...months].sort()) paths.push(await writeCsv(folder, month))
  return { passes: summary.passes, files: paths, summary }
}
