import { createReadStream, existsSync } from 'node:fs'
import { appendFile, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import type { PassOverAuditEntry } from '@passover/schemas'
import { CSV_HEAD, csvLine } from './csv.js'
import { monthOf, sessionFile } from './session-file.js'

const JSONL = /^session-.*-passes\.jsonl$/
/** Of the files that are written here alone: the folder is somebody's. */
const DRAFT = /^(session-.*-passes\.jsonl|passes\.csv|audit-summary\.json)\.\d+\.tmp$/
/** A draft is written in one go: who wrote one so long ago died at it. */
const ABANDONED_MS = 3_600_000

/**
 * Files that are written beside what they replace and renamed as a whole: a crash leaves the old one or the new one. Of a file that is there
 * the lines of passes that were asked for before `kept_before` stay: those are older than what is exported now.
 */
export class ExportFiles implements AsyncDisposable {
  private readonly drafts = new Map<string, string>()
  /** Folders that are there, without what exports that died left: a month has a file for each of its sessions. */
  private readonly ready = new Set<string>()

  constructor(
    private readonly folder: string,
    private readonly kept_before: number,
  ) {}

  /** Files begun. */
  get count(): number {
    return this.drafts.size
  }

  /** Appends entries, oldest first, to the files of their months and sessions. */
  async add(entries: readonly PassOverAuditEntry[]): Promise<void> {
    const lines = new Map<string, string[]>()
    for (const entry of entries) {
      const path = join(this.folder, monthOf(entry.timestamp), sessionFile(entry.session_id))
      const known = lines.get(path) ?? []
      known.push(`${JSON.stringify(entry)}\n`)
      lines.set(path, known)
    }
    for (const [path, text] of lines) await appendFile(await this.draft(path), text.join(''))
  }

  async write(name: string, text: string): Promise<void> {
    await appendFile(await this.draft(join(this.folder, name)), text)
  }

  /** Puts the new files where the old ones are; returns their paths. */
  async finish(): Promise<string[]> {
    const paths = [...this.drafts.keys()].sort()
    for (const path of paths) {
      const draft = this.drafts.get(path)
      if (draft === undefined) continue
      const file = await open(draft, 'r+')
      await file.sync()
      await file.close()
      await rename(draft, path)
      this.drafts.delete(path)
    }
    return paths
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const draft of this.drafts.values()) await rm(draft, { force: true })
  }

  private async draft(path: string): Promise<string> {
    const known = this.drafts.get(path)
    if (known) return known
    const draft = `${path}.${process.pid}.tmp`
    await this.prepare(dirname(path))
    await rm(draft, { force: true })
    this.drafts.set(path, draft)
    await appendFile(draft, '')
    if (path.endsWith('.jsonl')) await keep(path, draft, this.kept_before)
    return draft
  }

  private async prepare(folder: string): Promise<void> {
    if (this.ready.has(folder)) return
    this.ready.add(folder)
    await mkdir(folder, { recursive: true })
    await sweepDrafts(folder)
  }
}

/** What exports that died left. */
async function sweepDrafts(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    if (!DRAFT.test(name)) continue
    const found = await stat(join(folder, name)).catch(() => undefined)
    if (found && Date.now() - found.mtimeMs > ABANDONED_MS) await rm(join(folder, name), { force: true })
  }
}

async function keep(path: string, draft: string, before: number): Promise<void> {
  if (!existsSync(path) || !Number.isFinite(before)) return
  for await (const entry of entriesIn(path)) if (entry.timestamp < before) await appendFile(draft, `${JSON.stringify(entry)}\n`)
}

async function* entriesIn(path: string): AsyncGenerator<PassOverAuditEntry> {
  for await (const line of createInterface({ input: createReadStream(path), crlfDelay: Number.POSITIVE_INFINITY })) {
    if (line === '') continue
    yield JSON.parse(line) as PassOverAuditEntry
  }
}

/** Writes `passes.csv` of a month anew from its sessions' files. */
export async function writeCsv(folder: string, month: string): Promise<string> {
  const path = join(folder, month, 'passes.csv')
  await using files = new ExportFiles(folder, Number.NEGATIVE_INFINITY)
  const name = join(month, 'passes.csv')
  await files.write(name, CSV_HEAD)
  for (const session of (await readdir(join(folder, month))).filter((one) => JSONL.test(one)).sort()) {
    let lines: string[] = []
    for await (const entry of entriesIn(join(folder, month, session))) {
      lines.push(csvLine(entry))
      if (lines.length < 1_000) continue
      await files.write(name, lines.join(''))
      lines = []
    }
    await files.write(name, lines.join(''))
  }
  await files.finish()
  return path
}
