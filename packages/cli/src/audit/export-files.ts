import { createHash } from 'node:crypto'
import { createReadStream, existsSync } from 'node:fs'
import { appendFile, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { printableJson } from '@passover/core/text'
import type { PassOverAuditEntry } from '@passover/schemas'
import { CliFailure } from '../errors.js'
import { CSV_HEAD, csvLine } from './csv.js'

const JSONL_PATTERN = /^session-.*-passes\.jsonl$/
/** Names of drafts that this command writes. The folder may contain other files, which are not touched. */
const DRAFT_PATTERN = /^(session-.*-passes\.jsonl|passes\.csv|audit-summary\.json)\.\d+\.tmp$/
/** Age at which a draft counts as abandoned, in ms. Drafts are written in one go, so an older one belongs to an export that crashed. */
const ABANDONED_MS = 3_600_000
/** Maximum number of lines held in memory. */
const MAX_BUFFERED_LINES = 1_000

/** Lines of existing files that an export keeps. */
export interface KeptLines {
  /** Lines of passes that were requested before this time (ms) are kept. */
  before: number
  /** True for those of them that are written again. */
  isAgain: (entry: PassOverAuditEntry) => boolean
}

const NONE_KEPT: KeptLines = { before: Number.NEGATIVE_INFINITY, isAgain: () => false }

interface Draft {
  path: string
  former: FormerLines
}

/** Export files. Each is written beside the file that it replaces and then renamed, so that a crash leaves the old file or the new one. */
export class ExportFiles implements AsyncDisposable {
  readonly #folder: string
  readonly #kept: KeptLines
  readonly #drafts = new Map<string, Draft>()
  /** Folders that were created and swept of abandoned drafts; once each, because a month has a file for each of its sessions. */
  readonly #ready = new Set<string>()

  constructor(folder: string, kept: KeptLines = NONE_KEPT) {
    this.#folder = folder
    this.#kept = kept
  }

  /** Number of files being written. */
  get count(): number {
    return this.#drafts.size
  }

  /**
   * Appends entries, oldest first, to the files of their months and sessions, merged with the lines that are kept. An entry that is as old
   * as those and is not written again is skipped if its file already has a line for it.
   */
  async add(entries: readonly PassOverAuditEntry[]): Promise<void> {
    const byPath = new Map<string, PassOverAuditEntry[]>()
    for (const entry of entries) {
      const path = join(this.#folder, monthOf(entry.timestamp), sessionFile(entry.session_id))
      const known = byPath.get(path) ?? []
      known.push(entry)
      byPath.set(path, known)
    }
    for (const [path, added] of byPath) await this.#append(await this.#draft(path), added)
  }

  async write(name: string, text: string): Promise<void> {
    const draft = await this.#draft(join(this.#folder, name))
    await appendFile(draft.path, text)
  }

  /** Replaces the old files with the new ones and returns their paths. */
  async finish(): Promise<string[]> {
    const paths = [...this.#drafts.keys()].sort()
    for (const path of paths) {
      const draft = this.#drafts.get(path)
      if (draft === undefined) continue
      for await (const lines of draft.former.upTo(Number.POSITIVE_INFINITY)) await appendFile(draft.path, lines)
      const file = await open(draft.path, 'r+')
      await file.sync()
      await file.close()
      await rename(draft.path, path)
      this.#drafts.delete(path)
    }
    return paths
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { path, former } of this.#drafts.values()) {
      await former.close()
      await rm(path, { force: true })
    }
  }

  async #append({ path, former }: Draft, entries: readonly PassOverAuditEntry[]): Promise<void> {
    let text = ''
    for (const entry of entries) {
      if (await former.hasBetter(entry)) continue
      for await (const lines of former.upTo(entry.timestamp)) {
        await appendFile(path, text + lines)
        text = ''
      }
      text += lineOf(entry)
    }
    await appendFile(path, text)
  }

  async #draft(path: string): Promise<Draft> {
    const known = this.#drafts.get(path)
    if (known) return known
    await this.#prepare(dirname(path))
    const draft = { path: `${path}.${process.pid}.tmp`, former: new FormerLines(path, this.#kept) }
    await rm(draft.path, { force: true })
    this.#drafts.set(path, draft)
    await appendFile(draft.path, '')
    return draft
  }

  async #prepare(folder: string): Promise<void> {
    if (this.#ready.has(folder)) return
    this.#ready.add(folder)
    await mkdir(folder, { recursive: true })
    await sweepDrafts(folder)
  }
}

/** Deletes drafts of exports that crashed. */
async function sweepDrafts(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    if (!DRAFT_PATTERN.test(name)) continue
    const found = await stat(join(folder, name)).catch(() => undefined)
    if (found && Date.now() - found.mtimeMs > ABANDONED_MS) await rm(join(folder, name), { force: true })
  }
}

/** The kept lines of an existing file, in order, read on demand. */
class FormerLines {
  readonly #path: string
  readonly #kept: KeptLines
  readonly #entries: AsyncGenerator<PassOverAuditEntry> | undefined
  #next: IteratorResult<PassOverAuditEntry, unknown> | undefined
  #lines: Promise<ReadonlySet<string>> | undefined

  constructor(path: string, kept: KeptLines) {
    this.#path = path
    this.#kept = kept
    if (path.endsWith('.jsonl') && Number.isFinite(kept.before) && existsSync(path)) this.#entries = entriesIn(path)
  }

  /** True if the file keeps a line for the same pass, which may contain more than the new entry. */
  async hasBetter(entry: PassOverAuditEntry): Promise<boolean> {
    const { before, isAgain } = this.#kept
    if (!this.#entries || entry.timestamp >= before || isAgain(entry)) return false
    this.#lines ??= keysIn(this.#path)
    return (await this.#lines).has(lineKey(entry))
  }

  /**
   * Yields the kept lines of passes requested up to `time`, in chunks. If no new line can come between the rest, yields all of it, which
   * closes the file.
   */
  async *upTo(time: number): AsyncGenerator<string> {
    if (!this.#entries) return
    let lines: string[] = []
    for (;;) {
      this.#next ??= await this.#entries.next()
      if (this.#next.done || (time < this.#kept.before && this.#next.value.timestamp > time)) break
      const entry = this.#next.value
      this.#next = undefined
      if (entry.timestamp < this.#kept.before && !this.#kept.isAgain(entry)) lines.push(lineOf(entry))
      if (lines.length < MAX_BUFFERED_LINES) continue
      yield lines.join('')
      lines = []
    }
    if (lines.length > 0) yield lines.join('')
  }

  async close(): Promise<void> {
    await this.#entries?.return(undefined)
  }
}

/** Identifies the pass of a line. Includes the time, because an id may be used again. */
export function lineKey({ originating_agent, subagent, pass_over_id, timestamp }: PassOverAuditEntry): string {
  return JSON.stringify([originating_agent, subagent, pass_over_id, timestamp])
}

async function keysIn(path: string): Promise<ReadonlySet<string>> {
  const keys = new Set<string>()
  for await (const entry of entriesIn(path)) keys.add(lineKey(entry))
  return keys
}

function lineOf(entry: PassOverAuditEntry): string {
  return `${printableJson(entry)}\n`
}

async function* entriesIn(path: string): AsyncGenerator<PassOverAuditEntry> {
  let number = 0
  for await (const line of linesIn(path)) {
    number++
    if (line.trim() !== '') yield entryOf(line, `${path}:${number}`)
  }
}

/** Splits at line feeds only. `node:readline` also splits at U+2028 and U+2029, which JSON strings may contain. */
async function* linesIn(path: string): AsyncGenerator<string> {
  let rest = ''
  for await (const chunk of createReadStream(path, 'utf8') as AsyncIterable<string>) {
    const lines = (rest + chunk).split('\n')
    rest = lines.pop() ?? ''
    yield* lines
  }
  yield rest
}

function entryOf(line: string, place: string): PassOverAuditEntry {
  try {
    const entry = JSON.parse(line) as PassOverAuditEntry
    if (typeof entry.timestamp === 'number') return entry
  } catch {
    // Falls through to the error below.
  }
  throw new CliFailure('E005', `${place} is not a line of an export, and the older lines of that file must be kept`, {
    hint: 'fix that line, move the file away, or export to another folder with --out',
  })
}

/** Writes `passes.csv` of a month from the files of its sessions. */
export async function writeCsv(folder: string, month: string): Promise<string> {
  const path = join(folder, month, 'passes.csv')
  await using files = new ExportFiles(folder)
  const name = join(month, 'passes.csv')
  await files.write(name, CSV_HEAD)
  for (const session of (await readdir(join(folder, month))).filter((one) => JSONL_PATTERN.test(one)).sort()) {
    let lines: string[] = []
    for await (const entry of entriesIn(join(folder, month, session))) {
      lines.push(csvLine(entry))
      if (lines.length < MAX_BUFFERED_LINES) continue
      await files.write(name, lines.join(''))
      lines = []
    }
    await files.write(name, lines.join(''))
  }
  await files.finish()
  return path
}

/** Session ids that are safe as file names. Lower case only, because some file systems ignore case and two names must not collide. */
const SAFE_NAME = /^[a-z0-9_-]{1,64}$/
const NO_SESSION = '~none'
const SHOWN_CHARACTERS = 32

/** Returns the file name of a session. An unsafe id gets a hash after `~`, which no safe name contains. */
export function sessionFile(session_id: string): string {
  return `session-${safeName(session_id)}-passes.jsonl`
}

function safeName(session_id: string): string {
  if (session_id === '') return NO_SESSION
  if (SAFE_NAME.test(session_id)) return session_id
  const shown = session_id
    .toLowerCase()
    .replace(/[^a-z0-9_-]+/g, '_')
    .slice(0, SHOWN_CHARACTERS)
  return `${shown}~${createHash('sha256').update(session_id).digest('hex').slice(0, 16)}`
}

/** Returns the month as YYYY-MM in UTC, as in the records' keys. */
export function monthOf(time: number): string {
  return new Date(time).toISOString().slice(0, 7)
}
