import {
  ARCHIVE_BUCKET,
  Chain,
  type ErasedEntry,
  encodeFrame,
  eventOf,
  FolderWriter,
  type Frame,
  liveArchive,
  Manifest,
  type ManifestEntry,
  nextAfter,
  SegmentBuffer,
  sealLocal,
  segmentOf,
  segmentRange,
  sequenceOf,
} from '@passover/archive'
import type { Bus, Stored } from '@passover/bus'
import { ErasedSince, leavingOf } from './erased-since.js'
import { partsOf, savedPart } from './parts.js'
import { type JudgeOptions, Judging, type Verdict, verdictOf } from './run.js'
import { GENESIS_HEX, type Walked, walkArchive } from './walk.js'

export interface LiveOptions extends JudgeOptions {
  /** A folder into which all that is read is saved, so that it can be verified elsewhere. */
  save?: string | undefined
}

/**
 * Verifies an installation: its archive, that what the stream still holds of it is the same, and the stream from there on. Reads only; an
 * installation at work goes on being written to, so it is read up to what was stored when this began.
 */
export async function verifyLive(bus: Bus, options: LiveOptions): Promise<Verdict> {
  const manifest = await Manifest.open(bus)
  const objects = await bus.objects(ARCHIVE_BUCKET)
  const source = liveArchive(manifest, objects)
  // In this order: what is archived after the second look may lie behind it.
  const newest = await manifest.newest()
  const bounds = await bus.bounds()
  const begins = newest ? 1 : Math.max(1, bounds.first)
  const from = Math.max(options.from ?? 1, begins)
  const saved = options.save === undefined ? undefined : await FolderWriter.open(options.save, options)
  const parts = await partsOf(bus, {
    onBytes: saved && (({ hash }, bytes) => saved.put(savedPart(hash), bytes)),
    hasLeft: leavingOf(bus, manifest),
  })
  const judging = new Judging({ parts, ...options, from }, bus.subjects)
  const walked = await walkArchive(
    source,
    {
      event: (event) => judging.event(event),
      erased: (entry, pass) => judging.erased(entry, pass),
      removed: (told) => judging.removed(told),
      fault: (fault) => judging.fault(fault),
      chain: (before, digests) => judging.chain(before, digests),
      segment: async (entry, frames, bytes) => {
        await judging.segment()
        await saved?.add(entry, bytes)
        if (entry.last >= bounds.first) await compare(bus, judging, { entry, frames, up_to: bounds.last })
      },
    },
    from,
  )
  if (newest && bounds.last < newest.last) {
    judging.fault({ k: newest.k, sequence: newest.last, what: `was archived, but the stream ends at ${bounds.last}: it is another stream` })
  }
  if (walked.begins && bounds.first < segmentRange(walked.begins.k).first) {
    // A removed segment leaves its entry, and a new archive begins where the stream does.
    const what = `is the first that the archive knows of, though the stream begins at ${bounds.first}: entries before it were taken out`
    judging.fault({ k: walked.begins.k, what })
  }
  const next = walked.newest ? nextAfter(walked.newest) : 1
  const since = options.from ?? 1
  const begin = Math.max(from, next)
  const gaps = new Gaps(Math.max(since, next))
  await tail(bus, judging, { walked, saved, gaps, from: begin, up_to: bounds.last, chained: since <= next })
  await hearLate(bus, judging, Math.max(begin, bounds.last + 1))
  await sayMissing(judging, manifest, gaps.until(bounds.last))
  await saved?.end()
  judging.finish(bus.now())
  return verdictOf(judging, walked, options)
}

interface Span {
  from: number
  up_to: number
}

/** Hands on what the stream holds of these sequences, in order. */
export async function readSpan(bus: Bus, { from, up_to }: Span, onMessage: (stored: Stored) => Promise<void> | void): Promise<void> {
  if (from > up_to) return
  let done: () => void = () => undefined
  const reached = new Promise<void>((resolve) => {
    done = resolve
  })
  let ended = false
  await using reader = await bus.follow({ from }, async (stored) => {
    if (stored.sequence <= up_to && !ended) await onMessage(stored)
    if (stored.sequence < up_to || ended) return
    ended = true
    done()
  })
  await Promise.race([reached, reader.caughtUp, reader.closed])
}

/** What the stream still holds of a segment must be what was archived of it: who changed one of both is found out. */
async function compare(
  bus: Bus,
  judging: Judging,
  { entry, frames, up_to }: { entry: ManifestEntry; frames: readonly Frame[]; up_to: number },
): Promise<void> {
  const { k } = entry
  const archived = new Map(frames.map((frame) => [sequenceOf(frame), frame]))
  const range = segmentRange(k)
  const standing: number[] = []
  await readSpan(bus, { from: range.first, up_to: Math.min(range.last, up_to) }, (stored) => {
    const { sequence } = stored
    const frame = archived.get(sequence)
    if (!frame && entry.removed) standing.push(sequence)
    else if (!frame) judging.fault({ k, sequence, what: 'stands in the stream, and not in the archive' })
    else if (!Buffer.from(frame.digest).equals(encodeFrame(eventOf(stored)).digest)) {
      judging.fault({ k, sequence, what: 'is archived otherwise than it stands in the stream' })
    }
  })
  const [first] = standing
  if (first !== undefined)
    judging.fault({ k, what: `was removed while ${standing.length} of its messages stand in the stream, ${first} the first` })
}

/** Which sequences did not come by. */
class Gaps {
  private readonly found: Span[] = []

  constructor(private expected: number) {}

  see(sequence: number): void {
    if (sequence > this.expected) this.found.push({ from: this.expected, up_to: sequence - 1 })
    this.expected = sequence + 1
  }

  until(last: number): readonly Span[] {
    this.see(last + 1)
    return this.found
  }
}

/** Nothing leaves the stream before it is archived: what is in neither was taken out, a whole pass perhaps, which no other rule would miss. */
async function sayMissing(judging: Judging, manifest: Manifest, gaps: readonly Span[]): Promise<void> {
  // What was archived while this was read may have been deleted since.
  const newest = gaps.length > 0 ? await manifest.newest() : undefined
  for (const { from, up_to } of gaps) {
    if (newest && from < nextAfter(newest)) continue
    const what = `${from === up_to ? 'is' : `and all up to ${up_to} are`} neither in the archive nor in the stream`
    judging.findings.fault({ sequence: from, rule: 'chain', what })
  }
}

interface Tail extends Span {
  walked: Walked
  saved: FolderWriter | undefined
  gaps: Gaps
  /** It is read from where the archive ends: else nothing can be said of the chain. */
  chained: boolean
}

/** The stream after the last segment. Saved, it is sealed here: the chain goes on as it will in the archive. */
async function tail(bus: Bus, judging: Judging, { walked, saved, gaps, from, up_to, chained }: Tail): Promise<void> {
  let chain_before = walked.newest?.chain_after ?? GENESIS_HEX
  let chain = new Chain(Buffer.from(chain_before, 'hex'))
  let buffer: SegmentBuffer | undefined
  let sequence = 0
  let digests: Uint8Array[] = []
  const seal = async () => {
    if (!buffer) return
    const value = chain.end()
    if (saved) {
      const { entry, object, index } = await sealLocal(buffer, { chain_before })
      await saved.add(entry, { object, index })
    }
    await judging.segment()
    judging.chain(chain_before, digests)
    digests = []
    chain_before = value
    chain = new Chain(Buffer.from(value, 'hex'))
    if (!chained) return
    walked.head = { sequence, hash: value }
    walked.values.push(walked.head)
  }
  const take = async (entry: ErasedEntry): Promise<SegmentBuffer> => {
    const k = segmentOf(entry.sequence)
    if (buffer?.k !== k) {
      await seal()
      buffer = new SegmentBuffer(k, saved ? undefined : 0)
    }
    sequence = entry.sequence
    gaps.see(sequence)
    chain.add(entry.digest)
    digests.push(entry.digest)
    return buffer
  }
  // What was taken out before its segment was sealed.
  const erased = new ErasedSince(bus, from)
  let expected = from
  const erasedBefore = async (next: number) => {
    for (const one of await erased.within(expected, next - 1)) {
      ;(await take(one)).addErased(one)
      judging.erased(one)
    }
    expected = next + 1
  }
  await readSpan(bus, { from, up_to }, async (stored) => {
    await erasedBefore(stored.sequence)
    const event = eventOf(stored)
    const { digest } = encodeFrame(event)
    ;(await take({ ...event, digest })).add(stored, bus.subjects.toFact(stored), undefined)
    judging.event(event)
  })
  await erasedBefore(up_to + 1)
  await seal()
}

/** What was said about custody and policy behind what was read: the tombstones of an erasure that was done meanwhile, how long is kept since. */
async function hearLate(bus: Bus, judging: Judging, from: number): Promise<void> {
  await using reader = await bus.follow({ filters: [bus.subjects.all('custody'), bus.subjects.all('policy')], from }, (stored) => {
    if (stored.sequence >= from) judging.event(eventOf(stored))
  })
  await Promise.race([reader.caughtUp, reader.closed])
}
