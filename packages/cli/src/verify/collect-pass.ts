import {
  ARCHIVE_BUCKET,
  Archive,
  type ArchivedEvent,
  eventOf,
  Manifest,
  type ManifestEntry,
  readSegment,
  segmentOf,
  withIndexes,
} from '@passover/archive'
import { type Bus, BusReadError, type ObjectStore, PartError, type StoredMessage, type Subjects } from '@passover/bus'
import { isSystemStep } from '@passover/core'
import { HEADER, keyText, type PassKey } from '@passover/schemas'
import { readIdWindow } from '../connection/id-window.js'
import { CliFailure } from '../errors.js'
import { StoredRecord } from '../stored-messages/stored-record.js'
import { count, oneLine } from '../terminal/text.js'
import { type LookUpPart, PartBuckets, referencedParts } from './parts.js'
import { type Verdict, Verification, verdictOf } from './verify-archive.js'

/** Stored messages of one pass and their context, collected for verification. */
export interface Evidence {
  pass: PassKey
  /** Messages of the pass and of its ancestors, the policy versions that decided them, and the records of their agents. In stream order. */
  entries: ArchivedEvent[]
  /** For each archived segment that contains some of them, the digests of all its entries, from which its chain value can be computed. */
  segments: { entry: ManifestEntry; digests: Uint8Array }[]
  /** Newest value of the chain when the evidence was collected. */
  head: { sequence: number; hash: string } | undefined
  /** Record of the audit service. Informative only, not evidence. */
  record: unknown
  /** Bytes of parts that entries reference, by hash. Missing ones, and those beyond the size limit, are omitted. */
  parts: ReadonlyMap<string, Uint8Array>
  /** Descriptions of existing messages that were omitted because there were too many. */
  left_out: readonly string[]
  id_window_ms: number
  subjects: Subjects
}

/** Maximum number of passes in a chain; those of regular passes are far shorter. */
const MAX_ANCESTORS = 64

const MIB = 1024 * 1024
/** Maximum number of bytes of parts in a bundle. A bundle is a single string, which is limited to about half a gigabyte. */
const MAX_PART_BYTES = 128 * MIB

/** Maximum number of messages of one pass that are read from the archive. */
const MAX_ARCHIVED = 10_000
/** Limits of what a bundle takes of one pass from the archive: for steps, requests and decisions together, and for each kind of event. */
const PASS_LIMITS = { messages: 1_000, bytes: 16 * MIB }
const KIND_LIMITS = { messages: 100, bytes: 512 * 1024 }

/**
 * Timeout in milliseconds for finding the pass. An audit service that catches up with a flood of events answers late, and evidence is wanted
 * especially for such passes.
 */
const FIND_MS = 60_000

interface Sources {
  /** Descriptions of what was omitted. */
  left_out: Set<string>
  bus: Bus
  archive: Archive
  manifest: Manifest
}

interface EvidenceRequest {
  id: string
  from?: string | undefined
  to?: string | undefined
  /** Default: the value of the stream. */
  id_window_ms?: number | undefined
}

/** Collects the stored messages of a pass and its ancestors, and the basis of its decisions. Throws CliFailure E041 if nothing is stored. */
export async function collectEvidence(bus: Bus, request: EvidenceRequest): Promise<Evidence> {
  const manifest = await Manifest.open(bus)
  const objects = await bus.objects(ARCHIVE_BUCKET)
  const archive = new Archive(manifest, objects)
  try {
    return await collectFrom({ bus, manifest, archive, left_out: new Set() }, objects, request)
  } finally {
    await archive.finder.close()
  }
}

async function collectFrom(sources: Sources, objects: ObjectStore, { id_window_ms: said, ...ref }: EvidenceRequest): Promise<Evidence> {
  const { bus, manifest, left_out } = sources
  const id_window_ms = said ?? (await readIdWindow(bus)).id_window_ms
  const { findPass } = await import('@passover/operator')
  const found = await findPass(bus, ref, {}, FIND_MS)
  const entries = new Map<number, ArchivedEvent>()
  const names = new Set<string>()
  const versions = new Set<number>()
  let key: PassKey | undefined = found.key
  for (let above = 0; key && above < MAX_ANCESTORS; above++) {
    const messages = await messagesOf(sources, key)
    if (above === 0 && messages.length === 0) throw new CliFailure('E041', `no data is stored for ${keyText(key)}`)
    for (const event of messages) entries.set(event.sequence, event)
    names.add(key.originator).add(key.subagent)
    const told = toldBy(messages, bus)
    for (const version of told.versions) versions.add(version)
    key = told.parent
  }
  for (const event of await decisionBasis(bus, { names, versions, before: Math.max(...entries.keys()) })) entries.set(event.sequence, event)
  const ordered = [...entries.values()].sort((a, b) => a.sequence - b.sequence)
  const newest = await manifest.newest()
  return {
    pass: found.key,
    entries: ordered,
    segments: await segmentsOf(sources, ordered, (entry) => readSegment(objects, entry)),
    head: newest && { sequence: newest.last, hash: newest.chain_after },
    record: found.record ?? null,
    parts: await partsNamed(bus, ordered),
    left_out: [...left_out],
    id_window_ms,
    subjects: bus.subjects,
  }
}

/** Returns the messages of a pass from the stream, and those deleted from it from the archive. */
async function messagesOf({ bus, archive, left_out }: Sources, key: PassKey): Promise<ArchivedEvent[]> {
  const name = keyText(key)
  const live = await bus.journal.history(key, 1, (what) => void left_out.add(`${what} of ${name} in the stream`))
  const requestIn = (stored: StoredMessage) => {
    const fact = bus.subjects.toFact(stored)
    return fact.type === 'step' ? fact.request : undefined
  }
  const bySequence = new Map(live.map((stored) => [stored.sequence, stored]))
  const archived = (await withIndexes(archive, () => archive.sequencesOf(key, requestIn))).filter((sequence) => !bySequence.has(sequence))
  const room = new RemainingRoom(bus.subjects)
  for (const sequence of archived.slice(0, MAX_ARCHIVED)) {
    const [stored] = await archive.messages([sequence])
    if (stored && room.takes(stored)) bySequence.set(sequence, stored)
  }
  const missing = room.left_out + Math.max(0, archived.length - MAX_ARCHIVED)
  if (missing > 0) left_out.add(`${count(missing, 'message')} of ${name} in the archive`)
  for (const stored of [...bySequence.values()]) {
    const named = requestIn(stored)
    if (named === undefined || bySequence.has(named)) continue
    const request = (await bus.journal.message(named)) ?? (await archive.messages([named]))[0]
    if (request) bySequence.set(named, request)
  }
  return [...bySequence.values()].sort((a, b) => a.sequence - b.sequence).map(eventOf)
}

/** Bounds what is taken of one pass, since its agents may publish any number of messages. */
class RemainingRoom {
  readonly #subjects: Subjects
  left_out = 0
  readonly #taken = new Map<string, { messages: number; bytes: number }>()

  constructor(subjects: Subjects) {
    this.#subjects = subjects
  }

  takes(stored: StoredMessage): boolean {
    const fact = this.#subjects.toFact(stored)
    const kind = fact.type === 'event' ? fact.kind : 'journal'
    const most = fact.type === 'event' ? KIND_LIMITS : PASS_LIMITS
    const taken = this.#taken.get(kind) ?? { messages: 0, bytes: 0 }
    if (taken.messages >= most.messages || taken.bytes + stored.data.length > most.bytes) {
      this.left_out++
      return false
    }
    this.#taken.set(kind, { messages: taken.messages + 1, bytes: taken.bytes + stored.data.length })
    return true
  }
}

/** Loads the parts that entries reference, if they exist and fit into the bundle. */
async function partsNamed(bus: Bus, entries: readonly ArchivedEvent[]): Promise<Map<string, Uint8Array>> {
  const found = new Map<string, Uint8Array>()
  const buckets = new PartBuckets(bus.parts)
  let room = MAX_PART_BYTES
  for (const part of entries.flatMap((event) => referencedParts(new StoredRecord(event, bus.subjects)))) {
    if (found.has(part.hash) || part.size > room || (await buckets.lacks(part))) continue
    const bytes = await bus.parts.fetch(part).catch((error: unknown) => {
      if (error instanceof PartError || (error instanceof BusReadError && error.reason === 'permission')) return undefined
      throw error
    })
    if (!bytes) {
      buckets.missed(part)
      continue
    }
    room -= bytes.length
    found.set(part.hash, bytes)
  }
  return found
}

/** Returns the parent and the policy versions that the steps of a pass name. */
function toldBy(messages: readonly ArchivedEvent[], bus: Bus): { parent: PassKey | undefined; versions: number[] } {
  const versions: number[] = []
  let parent: PassKey | undefined
  for (const event of messages) {
    const recorded = new StoredRecord(event, bus.subjects)
    const { fact } = recorded
    // Messages of agents are not trusted here: a fence that names another pass would add that pass to the bundle.
    if (fact.type !== 'step' || fact.untrusted !== undefined || !isSystemStep(fact)) continue
    parent ??= fact.parent
    const body = recorded.body() as { control?: { policy_version?: unknown } } | undefined
    const version = body?.control?.policy_version ?? Number(recorded.header(HEADER.policy) ?? 0)
    if (typeof version === 'number' && version > 0) versions.push(version)
  }
  return { parent, versions }
}

interface DecisionBasis {
  names: ReadonlySet<string>
  versions: ReadonlySet<number>
  before: number
}

/** Returns the policy versions and agent records. Such events are never deleted from the stream. */
async function decisionBasis(bus: Bus, { names, versions, before }: DecisionBasis): Promise<ArchivedEvent[]> {
  const found: ArchivedEvent[] = []
  const filters = [bus.subjects.all('policy'), bus.subjects.all('agent')]
  await using reader = await bus.follow({ filters }, (stored) => {
    if (stored.sequence > before) return
    const recorded = new StoredRecord(eventOf(stored), bus.subjects)
    const body = recorded.body() as { version?: unknown; name?: unknown } | undefined
    const wanted = recorded.version === 'policy' ? versions.has(body?.version as number) : names.has(body?.name as string)
    if (wanted) found.push(recorded.event)
  })
  await Promise.race([reader.caughtUp, reader.closed])
  return found
}

/** Returns each sealed segment that contains some of the entries, with the digests of all its entries. */
async function segmentsOf(
  { manifest }: Sources,
  entries: readonly ArchivedEvent[],
  read: (entry: ManifestEntry) => ReturnType<typeof readSegment>,
): Promise<Evidence['segments']> {
  const found: Evidence['segments'] = []
  for (const k of new Set(entries.map(({ sequence }) => segmentOf(sequence)))) {
    const entry = await manifest.entry(k)
    if (!entry || entry.removed) continue
    const frames = await read(entry)
    found.push({ entry, digests: Buffer.concat(frames.map(({ digest }) => digest)) })
  }
  return found
}

/** Describes for people what is missing in the evidence. */
export function omissionText(what: string): string {
  return `! Omitted because it is too large: ${oneLine(what, 300)}`
}

/** Verifies the messages of a pass and its ancestors by all rules. Other messages are unknown and not reported as missing. */
export async function verifyEntries(
  { entries, subjects }: { entries: readonly ArchivedEvent[]; subjects: Subjects },
  options: { id_window_ms: number; parts?: LookUpPart },
): Promise<Verdict> {
  const verification = new Verification({ ...options, selection: true }, subjects)
  for (const event of entries) await verification.event(event)
  await verification.segment()
  return verdictOf(verification, { segments: 0, head: undefined, values: [], begins: undefined, removed: undefined }, options)
}
