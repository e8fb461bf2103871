import { constants } from 'node:buffer'
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { FileRefused, type ObjectStore, readRegularFile } from '@passover/bus'
import { sha256 } from '@passover/schemas'
import { z } from 'zod'
import { MAX_RAW_BYTES } from '../segment/unpack.js'
import { type Manifest, type ManifestEntry, manifestEntry, removedSegment } from './manifest.js'

/** Read access to an archive, independent of where it is stored. */
export interface ArchiveSource {
  /** Returns the manifest entries, oldest first. Throws ArchiveUnreadable. */
  entries(): Promise<ManifestEntry[]>
  /** Returns an object, or `undefined` if it is missing or incomplete. Throws ArchiveUnreadable for a file that is not read. */
  object(name: string): Promise<Uint8Array | undefined>
  /** Returns the current entry of a segment. Absent if the archive cannot change any more. */
  again?(k: number): Promise<ManifestEntry | undefined>
  /** Returns the server time (ms) at which the entry of a segment was written. Absent if it is not known. */
  storedAt?(k: number): Promise<number | undefined>
  /** Returns the defects of a saved archive's files other than its segments. */
  filesFaults?(): Promise<FileFault[]>
  /** Returns the files of a saved archive that do not belong to it and were not read so far. */
  strays?(): Promise<string[]>
}

export interface FileFault {
  severity: 'fault' | 'remark'
  /** Number of the segment. */
  k?: number
  what: string
}

/** Thrown if there is no archive at that place, or it cannot be read. */
export class ArchiveUnreadable extends Error {
  override readonly name = 'ArchiveUnreadable'
}

/** Returns the archive of a running installation. */
export function liveArchive(manifest: Manifest, objects: Pick<ObjectStore, 'get'>): ArchiveSource {
  return {
    entries: () => manifest.all(),
    object: (name) => objects.get(name).catch(() => undefined),
    again: async (k) => (await manifest.standing(k))?.entry,
    storedAt: async (k) => (await manifest.standing(k))?.time,
  }
}

const MANIFEST_FILE = 'manifest.jsonl'
/** File with the settings of a saved archive. The hash chain does not cover it, so a verifier may override them. */
const ABOUT_FILE = 'archive.json'
const about = z.object({
  v: z.literal(1),
  id_window_ms: z.int().positive(),
  /** SHA-256 of each line of the manifest, which has fields that the chain does not cover. Archives saved by earlier versions have none. */
  manifest: z.array(z.string()).optional(),
})
/** Maximum size in bytes of these two files: JavaScript has no longer text. */
const MAX_TEXT_BYTES = constants.MAX_STRING_LENGTH
/** Allowed object names. They come from a manifest that may have been written by an attacker. */
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/

/** Returns an archive that was saved into a folder: its manifest with one entry per line, and its objects next to it. */
export function folderArchive(folder: string): ArchiveSource {
  const own = new Set([MANIFEST_FILE, ABOUT_FILE])
  return {
    entries: async () => (await manifestLines(folder)).map((line, at) => entryIn(line, at + 1)),
    object: async (name) => {
      own.add(name)
      return NAME.test(name) ? read(folder, name, MAX_RAW_BYTES).catch(ignoreUnreadable) : undefined
    },
    filesFaults: async () => filesFaults(await manifestLines(folder), await aboutOf(folder)),
    strays: async () => (await readdir(folder)).filter((name) => !own.has(name)).sort(),
  }
}

/** Reads a file of a saved archive, which may come from somebody else. Throws ArchiveUnreadable if it is not a regular file or is too large. */
async function read(folder: string, name: string, max = MAX_TEXT_BYTES): Promise<Buffer> {
  try {
    return await readRegularFile(join(folder, name), { max, links: 'followed' })
  } catch (error) {
    throw error instanceof FileRefused ? new ArchiveUnreadable(error.message) : error
  }
}

function ignoreUnreadable(error: unknown): undefined {
  if (error instanceof ArchiveUnreadable) throw error
  return undefined
}

async function manifestLines(folder: string): Promise<string[]> {
  const bytes = await read(folder, MANIFEST_FILE).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOTDIR') throw new ArchiveUnreadable(`${folder} is a file, not the folder of a saved archive`)
    throw new ArchiveUnreadable(error.code === 'ENOENT' ? `there is no ${MANIFEST_FILE} in ${folder}` : error.message)
  })
  return bytes
    .toString()
    .split('\n')
    .filter((line) => line !== '')
}

function filesFaults(lines: readonly string[], saved: z.infer<typeof about> | undefined): FileFault[] {
  if (!saved && lines.length === 0) return []
  if (!saved)
    return [{ severity: 'fault', what: `${ABOUT_FILE} is missing: the id window and the digests of the manifest entries are unknown` }]
  const { manifest: digests } = saved
  if (!digests) {
    const what = `${ABOUT_FILE} has no digests of the manifest entries: an older version saved it, or they were removed`
    return [{ severity: 'remark', what }]
  }
  const faults: FileFault[] = lines.flatMap((line, at) => {
    const differs = `its entry in ${MANIFEST_FILE} does not match its digest in ${ABOUT_FILE}: one of the two files was changed`
    return digests[at] === sha256(line) ? [] : [{ severity: 'fault', k: entryIn(line, at + 1).k, what: differs }]
  })
  if (lines.length < digests.length)
    faults.push({
      severity: 'fault',
      what: `${MANIFEST_FILE} has ${lines.length} entries, but ${ABOUT_FILE} has ${digests.length} digests`,
    })
  return faults
}

/** Strict schema: a field with a changed name must not pass as an omitted one. */
const savedEntry = manifestEntry.extend({ removed: removedSegment.strict().optional() }).strict()

function entryIn(line: string, number: number): ManifestEntry {
  try {
    return savedEntry.parse(JSON.parse(line))
  } catch {
    throw new ArchiveUnreadable(`line ${number} of ${MANIFEST_FILE} is not a manifest entry`)
  }
}

/** Returns the id window (ms) of the installation that a folder was saved from, or `undefined` if it is not recorded. Throws ArchiveUnreadable. */
export async function savedWindow(folder: string): Promise<number | undefined> {
  const saved = await aboutOf(folder)
  // Without settings there may be no archive at all.
  if (!saved) await manifestLines(folder)
  return saved?.id_window_ms
}

async function aboutOf(folder: string): Promise<z.infer<typeof about> | undefined> {
  const text = await read(folder, ABOUT_FILE).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return undefined
    throw new ArchiveUnreadable(error.message)
  })
  if (text === undefined) return undefined
  try {
    return about.parse(JSON.parse(text.toString()))
  } catch {
    throw new ArchiveUnreadable(`${ABOUT_FILE} in ${folder} does not contain the settings of an archive`)
  }
}

/** Saves an archive into a folder, so that it can be moved elsewhere. */
export class FolderWriter {
  readonly #rules: { id_window_ms: number }
  readonly #lines: string[] = []
  readonly #names = new Set<string>()

  private constructor(
    readonly folder: string,
    rules: { id_window_ms: number },
  ) {
    this.#rules = rules
  }

  /** Creates the folder. `rules` are the settings under which the entries were made and must be verified. */
  static async open(folder: string, rules: { id_window_ms: number }): Promise<FolderWriter> {
    await mkdir(folder, { recursive: true })
    return new FolderWriter(folder, rules)
  }

  /** Adds a segment under the object names from its entry. */
  async add(entry: ManifestEntry, bytes: { object: Uint8Array | undefined; index: Uint8Array | undefined }): Promise<void> {
    if (bytes.object) await this.put(entry.removed?.kept?.object ?? entry.object, bytes.object)
    if (bytes.index) await this.put(entry.index, bytes.index)
    this.#lines.push(JSON.stringify(entry))
  }

  /** Writes the manifest last, so that an incomplete folder is not mistaken for an archive. */
  async end(): Promise<void> {
    const { id_window_ms } = this.#rules
    const saved: z.infer<typeof about> = { v: 1, id_window_ms, manifest: this.#lines.map((line) => sha256(line)) }
    await writeFile(join(this.folder, ABOUT_FILE), `${JSON.stringify(saved)}\n`)
    await writeFile(join(this.folder, MANIFEST_FILE), this.#lines.map((line) => `${line}\n`).join(''))
  }

  /** Deletes what was written, and the manifest of an archive saved there before, since some of its files were overwritten. */
  async discard(): Promise<void> {
    for (const name of [MANIFEST_FILE, ABOUT_FILE, ...this.#names]) await rm(join(this.folder, name), { force: true })
  }

  /** Adds another file of the archive under its own name. */
  async put(name: string, bytes: Uint8Array): Promise<void> {
    if (!NAME.test(name)) throw new ArchiveUnreadable(`an object has the name ${JSON.stringify(name)}`)
    this.#names.add(name)
    await writeFile(join(this.folder, name), bytes)
  }
}
