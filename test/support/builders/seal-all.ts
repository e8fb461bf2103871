import { type ArchivedEvent, GENESIS, type InMemorySegment, SegmentBuffer, sealInMemory, segmentOf, storedOf } from '@passover/archive'
import { Subjects } from '@passover/bus'

/** Seals events into segments of an archive, as the audit does. */
export async function sealAll(events: Iterable<ArchivedEvent>, compression: 'gzip' | 'none' = 'none'): Promise<InMemorySegment[]> {
  const subjects = new Subjects()
  const segments: InMemorySegment[] = []
  let buffer: SegmentBuffer | undefined
  let chain_before = Buffer.from(GENESIS).toString('hex')
  const seal = async () => {
    if (!buffer) return
    const segment = await sealInMemory(buffer, { chain_before, compression })
    chain_before = segment.entry.chain_after
    segments.push(segment)
  }
  for (const event of events) {
    const k = segmentOf(event.sequence)
    if (buffer?.k !== k) {
      await seal()
      buffer = new SegmentBuffer(k)
    }
    const stored = storedOf(event)
    buffer.add(stored, subjects.toFact(stored), undefined)
  }
  await seal()
  return segments
}
