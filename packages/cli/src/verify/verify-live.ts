import {
  ARCHIVE_BUCKET,
  encodeFrame,
  eventOf,
  FolderWriter,
  type Frame,
  liveArchive,
  Manifest,
  type ManifestEntry,
  segmentRange,
  sequenceAfter,
  sequenceOf,
} from '@passover/archive'
import { type Bus, unannouncedEntries, unannouncedText } from '@passover/bus'
import { askIndex } from '@passover/operator'
import { readCustodyAndPolicy, readRange } from '../stored-messages/read-range.js'
import { walkArchive } from '../stored-messages/walk-archive.js'
import { deletedSince, readErasures } from './erased-during-read.js'
import type { Findings } from './findings.js'
import { installationParts, savedPartName } from './parts.js'
import { type IndexCounts, type Verdict, Verification, type VerifyOptions, verdictOf } from './verify-archive.js'
import { verifyTail } from './verify-tail.js'

export interface VerifyLiveOptions extends VerifyOptions {
  /** Folder to save everything that is read to, so that it can be verified elsewhere. */
  save?: string | undefined
}

interface VerifyAndSaveOptions extends VerifyLiveOptions {
  save: string
  /** Called before reading if nothing will be saved. */
  onUnsaved: (why: string) => void
}

/** Number of attempts to save, because an erasure may start and end during the read. Erasures usually take seconds. */
const SAVE_ATTEMPTS = 3
const ERASURE_IN_PROGRESS = 'a session is being erased'

/**
 * Verifies an installation: its archive, that the messages still in the stream match it, and the stream after it. Only reads. A running installation
 * is still written to, so it is read up to the last message stored when the verification began.
 */
export async function verifyLive(bus: Bus, options: VerifyLiveOptions): Promise<Verdict> {
  const manifest = await Manifest.open(bus)
  const objects = await bus.objects(ARCHIVE_BUCKET)
  const source = liveArchive(manifest, objects)
  // The order matters: messages archived after the manifest was read may lie beyond the bounds.
  const newest = await manifest.newest()
  const read_at = bus.now()
  const bounds = await bus.bounds()
  const begins = newest ? 1 : Math.max(1, bounds.first)
  const from = Math.max(options.from ?? 1, begins)
  const saved = options.save === undefined ? undefined : await FolderWriter.open(options.save, options)
  const erased = saved && (await readErasures(bus))
  const parts = await installationParts(bus, {
    onBytes: saved && (({ hash }, bytes) => saved.put(savedPartName(hash), bytes)),
    hasLeft: deletedSince(bus, manifest),
  })
  const verification = new Verification({ parts, ...options, from, early: true }, bus.subjects)
  // Includes events that the archive no longer has or that are skipped.
  await readCustodyAndPolicy(bus, { from: 1, up_to: Number.POSITIVE_INFINITY }, (stored) => verification.early(eventOf(stored)))
  const walked = await walkArchive(
    source,
    {
      event: (event) => verification.event(event),
      erased: (entry, pass) => verification.erased(entry, pass),
      removed: (told) => verification.removed(told),
      fault: (fault) => verification.fault(fault),
      chain: (before, digests) => verification.chain(before, digests),
      segment: async (entry, frames, bytes) => {
        await verification.segment()
        await saved?.add(entry, bytes)
        if (entry.last >= bounds.first) await compare(bus, verification, { entry, frames, up_to: bounds.last })
      },
    },
    from,
  )
  if (newest && bounds.last < newest.last) {
    verification.fault({
      k: newest.k,
      sequence: newest.last,
      what: `was archived, but the stream ends at ${bounds.last}: it is a different stream`,
    })
  }
  if (walked.begins && bounds.first < segmentRange(walked.begins.k).first) {
    // A removed segment leaves its entry, and a new archive begins where the stream does.
    const what = `is the first entry in the archive, but the stream begins at ${bounds.first}: the entries between were removed from the archive`
    verification.fault({ k: walked.begins.k, what })
  }
  const next = walked.newest ? sequenceAfter(walked.newest) : 1
  const since = options.from ?? 1
  const span = { from: Math.max(from, next), up_to: bounds.last, chained: since <= next, unbroken: Math.max(since, next) }
  await verifyTail({ bus, verification, manifest, source, walked, saved }, span)
  for (const entry of await unannouncedEntries(bus))
    verification.findings.remark({ rule: 'trust', what: `${unannouncedText(entry)}: readers ignore it` })
  const index = await verifyIndex(bus, verification.findings)
  const unsaved = saved && erased && (await endSaved(bus, saved, erased))
  verification.finish({ now: bus.now(), read_at, begins: walked.begins })
  return { ...verdictOf(verification, walked, options), index, ...(unsaved ? { unsaved } : {}) }
}

/** Verifies and saves, and repeats this if something was erased meanwhile. Saves nothing while an erasure is in progress, which may take hours. */
export async function verifyAndSave(bus: Bus, { save, onUnsaved, ...options }: VerifyAndSaveOptions): Promise<Verdict> {
  let verdict: Verdict | undefined
  for (let tries = 0; tries < SAVE_ATTEMPTS; tries++) {
    if ((await readErasures(bus)).going) break
    verdict = await verifyLive(bus, { ...options, save })
    if (verdict.unsaved === undefined) return verdict
  }
  if (verdict) return verdict
  onUnsaved(ERASURE_IN_PROGRESS)
  return { ...(await verifyLive(bus, options)), unsaved: ERASURE_IN_PROGRESS }
}

/**
 * Has the audit service compare its index with the records. Filtered queries and statistics rely on the index, so a differing line is a fault (rule
 * `index`), although the stored messages are correct; `passover audit rebuild` repairs it.
 */
async function verifyIndex(bus: Bus, findings: Pick<Findings, 'fault'>): Promise<IndexCounts> {
  const compared = await askIndex(bus)
  if (!compared?.complete) return 'none'
  const { records, wrong, shown } = compared
  for (const { pass, what } of shown)
    findings.fault({ rule: 'index', ...(pass === undefined ? {} : { pass }), what: `the audit's index has ${what}` })
  const more = wrong - shown.length
  if (more > 0) findings.fault({ rule: 'index', what: `the audit's index has ${more} more lines that differ from their records` })
  return { records, wrong }
}

/**
 * Completes the saved folder, or discards it and returns the reason. If a session was erased meanwhile, the folder could contain its messages
 * unerased, or erased entries without their tombstones.
 */
async function endSaved(bus: Bus, saved: FolderWriter, before: Awaited<ReturnType<typeof readErasures>>): Promise<string | undefined> {
  const now = await readErasures(bus)
  if (!before.going && now.entries === before.entries) {
    await saved.end()
    return undefined
  }
  await saved.discard()
  return 'a session was erased during the check'
}

/** Compares the messages of a segment that are still in the stream with the archived ones, to detect a change of either. */
async function compare(
  bus: Bus,
  verification: Verification,
  { entry, frames, up_to }: { entry: ManifestEntry; frames: readonly Frame[]; up_to: number },
): Promise<void> {
  const { k } = entry
  const archived = new Map(frames.map((frame) => [sequenceOf(frame), frame]))
  const range = segmentRange(k)
  const standing: number[] = []
  await readRange(bus, { from: range.first, up_to: Math.min(range.last, up_to) }, (stored) => {
    const { sequence } = stored
    const frame = archived.get(sequence)
    if (!frame && entry.removed) standing.push(sequence)
    else if (!frame) verification.fault({ k, sequence, what: 'is in the stream but not in the archive' })
    else if (!Buffer.from(frame.digest).equals(encodeFrame(eventOf(stored)).digest)) {
      verification.fault({ k, sequence, what: 'differs between archive and stream' })
    }
  })
  const [first] = standing
  if (first !== undefined)
    verification.fault({
      k,
      what: `was removed although ${standing.length} of its messages are still in the stream, the first at ${first}`,
    })
}
