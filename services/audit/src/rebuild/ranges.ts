import { type Manifest, type ManifestEntry, readSegment, SEGMENT_SIZE, segmentOf, segmentRange, storedOf } from '@passover/archive'
import type { Bus, ObjectStore, StoredMessage } from '@passover/bus'

/** Source of the messages: `archive` reads sealed segments from the archive and the rest from the stream, `stream` reads only the stream. */
export type WalkSource = 'archive' | 'stream'

export interface RangeDeps {
  bus: Bus
  manifest: Manifest
  objects: ObjectStore
}

/** The messages in the range of one segment. */
export interface Range {
  k: number
  messages: StoredMessage[]
}

/** The segments that can be read: sealed ones from the archive, the others from the stream, none below `oldest`. */
export interface ReadableSegments {
  sealed: ReadonlyMap<number, ManifestEntry>
  oldest: number
}

export async function readableSegments(
  { bus, manifest }: Pick<RangeDeps, 'bus' | 'manifest'>,
  source: WalkSource,
): Promise<ReadableSegments> {
  const { first } = await bus.bounds()
  const sealed = new Map<number, ManifestEntry>()
  if (source === 'archive') for (const entry of await manifest.all()) sealed.set(entry.k, entry)
  return { sealed, oldest: Math.min(segmentOf(Math.max(1, first)), ...sealed.keys()) }
}

/** Reads segment by segment, from the newest to the oldest. Leaves out erased messages. Throws SegmentDamaged. */
export async function* ranges(deps: RangeDeps, source: WalkSource, up_to: number): AsyncGenerator<Range> {
  const { bus, objects } = deps
  const { sealed, oldest } = await readableSegments(deps, source)
  for (let k = segmentOf(up_to); k >= oldest; k--) {
    const entry = sealed.get(k)
    if (entry?.removed) continue
    if (entry) yield { k, messages: eventsOf(await readSegment(objects, entry)) }
    else yield { k, messages: await streamed(bus, k, up_to) }
  }
}

function eventsOf(frames: Awaited<ReturnType<typeof readSegment>>): StoredMessage[] {
  return frames.flatMap((frame) => (frame.kind === 'event' ? [storedOf(frame.event)] : []))
}

async function streamed(bus: Bus, k: number, up_to: number): Promise<StoredMessage[]> {
  const range = segmentRange(k)
  const last = Math.min(range.last, up_to)
  const bounds = await bus.bounds()
  if (bounds.last < range.first || bounds.first > last) return []
  const messages: StoredMessage[] = []
  let reached: () => void = () => undefined
  const all = new Promise<void>((resolve) => {
    reached = resolve
  })
  await using reader = await bus.follow({ from: Math.max(1, range.first) }, (stored) => {
    if (stored.sequence <= last && messages.length < SEGMENT_SIZE) messages.push(stored)
    if (stored.sequence >= last) reached()
  })
  await Promise.race([all, reader.caughtUp, reader.closed])
  return messages
}
