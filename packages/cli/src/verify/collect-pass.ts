import {
  ARCHIVE_BUCKET,
  Archive,
  type ArchivedEvent,
  eventOf,
  Manifest,
  type ManifestEntry,
  readSegment,
  segmentOf,
} from '@passover/archive'
import { type Bus, BusReadError, PartError, type StoredMessage, type Subjects } from '@passover/bus'
import { isSystemStep } from '@passover/core'
import { HEADER, keyText, type PassKey } from '@passover/schemas'
import { readIdWindow } from '../connection/id-window.js'
import { CliFailure } from '../errors.js'
import { StoredRecord } from '../stored-messages/stored-record.js'
import { count, oneLine } from '../terminal/text.js'
import { type LookUpPart, PartBuckets, referencedParts } from './parts.js'
import { type Verdict, Verification, verdictOf } from './verify-archive.js'

/** What is told of one pass, as it was stored. */
export interface Evidence {
  pass: PassKey
  /** Its messages, those of the passes above it, the versions of the policy that they were decided by, the records of their agents. In order. */
  entries: ArchivedEvent[]
  /** For each archived segment that holds some of them, the digests of all its entries: with them its chain value can be computed. */
  segments: { entry: ManifestEntry; digests: Uint8Array }[]
  /** Newest value of the chain as it was collected. */
  head: { sequence: number; hash: string } | undefined
  /** What the audit made of it: for reading, no evidence of its own. */
  record: unknown
  /** The bytes of parts that entries only name, by their hash. What was gone, or too much, is not here. */
  parts: ReadonlyMap<string, Uint8Array>
  /** Messages that exist and are not here, since there were too many; a line each. */
  left_out: readonly string[]
  id_window_ms: number
  subjects: Subjects
}

/** Passes above one another, at most: the chain of any honest pass is far shorter. */
const MAX_ANCESTORS = 64

/** A bundle is one text, of which there may be half a gigabyte. */
const MIB = 1024 * 1024
const MAX_PART_BYTES = 128 * MIB

/** Messages of one pass that are looked at in the archive. */
const MAX_ARCHIVED = 10_000
/** What a bundle takes of one pass from the archive: of steps, requests and decisions together, and of each kind of event. */
const PASS_LIMITS = { messages: 1_000, bytes: 16 * MIB }
const KIND_LIMITS = { messages: 100, bytes: 512 * 1024 }

/** An audit that catches up with a flood of events answers late, and evidence is collected of such passes above all. */
const FIND_MS = 60_000

interface Sources {
  /** What was left out, a line each. */
  left_out: Set<string>
  bus: Bus
  archive: Archive
  manifest: Manifest
}

interface EvidenceRequest {
  id: string
  from?: string | undefined
  to?: string | undefined
  /** Default: the stream's. */
  id_window_ms?: number | undefined
}

/** Collects what is stored of a pass and of those above it, with all that its decisions rest on. CliFailure E041: there is none. */
export async function collectEvidence(bus: Bus, { id_window_ms: said, ...ref }: EvidenceRequest): Promise<Evidence> {
  const id_window_ms = said ?? (await readIdWindow(bus)).id_window_ms
  const { findPass } = await import('@passover/operator')
  const found = await findPass(bus, ref, {}, FIND_MS)
  const manifest = await Manifest.open(bus)
  const objects = await bus.objects(ARCHIVE_BUCKET)
  const left_out = new Set<string>()
  const sources = { bus, manifest, archive: new Archive(manifest, objects), left_out }
  const entries = new Map<number, ArchivedEvent>()
  const names = new Set<string>()
  const versions = new Set<number>()
  let key: PassKey | undefined = found.key
  for (let above = 0; key && above < MAX_ANCESTORS; above++) {
    const messages = await messagesOf(sources, key)
    if (above === 0 && messages.length === 0) throw new CliFailure('E041', `nothing is stored of ${keyText(key)}`)
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

/** From the stream, and from the archive what was deleted since. */
async function messagesOf({ bus, archive, left_out }: Sources, key: PassKey): Promise<ArchivedEvent[]> {
  const name = keyText(key)
  const live = await bus.journal.history(key, 1, (what) => void left_out.add(`${what} of ${name} in the stream`))
  const requestIn = (stored: StoredMessage) => {
    const fact = bus.subjects.toFact(stored)
    return fact.type === 'step' ? fact.request : undefined
  }
  const bySequence = new Map(live.map((stored) => [stored.sequence, stored]))
  const archived = (await archive.sequencesOf(key, requestIn)).filter((sequence) => !bySequence.has(sequence))
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

/** Bounds what is taken of one pass, whose agents may have published without end. */
class RemainingRoom {
  left_out = 0
  private readonly taken = new Map<string, { messages: number; bytes: number }>()

  constructor(private readonly subjects: Subjects) {}

  takes(stored: StoredMessage): boolean {
    const fact = this.subjects.toFact(stored)
    const kind = fact.type === 'event' ? fact.kind : 'journal'
    const most = fact.type === 'event' ? KIND_LIMITS : PASS_LIMITS
    const taken = this.taken.get(kind) ?? { messages: 0, bytes: 0 }
    if (taken.messages >= most.messages || taken.bytes + stored.data.length > most.bytes) {
      this.left_out++
      return false
    }
    this.taken.set(kind, { messages: taken.messages + 1, bytes: taken.bytes + stored.data.length })
    return true
  }
}

/** The bytes of the parts that entries only name, as far as they are there and go into one file. */
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

/** What a pass's steps say that it hangs on. */
function toldBy(messages: readonly ArchivedEvent[], bus: Bus): { parent: PassKey | undefined; versions: number[] } {
  const versions: number[] = []
  let parent: PassKey | undefined
  for (const event of messages) {
    const recorded = new StoredRecord(event, bus.subjects)
    const { fact } = recorded
    // Messages of agents are not believed here: a fence that names another pass would put that pass into the bundle.
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

/** The versions of the policy, and the records of the agents; such events are never deleted from the stream. */
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

/** For each sealed segment that holds some of the entries, the digests of all of it. */
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

/** Says to people what is missing in evidence. */
export function omissionText(what: string): string {
  return `! Left out, as there is too much of it: ${oneLine(what, 300)}`
}

/** Judges the messages of a pass, and of those above it, by all the rules: what is not among them is not known. */
export async function verifyEntries(
  { entries, subjects }: { entries: readonly ArchivedEvent[]; subjects: Subjects },
  options: { id_window_ms: number; parts?: LookUpPart },
): Promise<Verdict> {
  const judging = new Verification({ ...options, selection: true }, subjects)
  for (const event of entries) await judging.event(event)
  await judging.segment()
  return verdictOf(judging, { segments: 0, head: undefined, values: [], begins: undefined, removed: undefined }, options)
}
