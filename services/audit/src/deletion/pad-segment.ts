import { type Manifest, segmentOf, segmentRange } from '@passover/archive'
import { type Bus, CONTENT_TYPE, encode } from '@passover/bus'
import { packSequences } from '@passover/core'
import { HEADER, SYSTEM } from '@passover/schemas'

const CONCURRENCY = 128

export interface PadDeps {
  bus: Pick<Bus, 'usage' | 'bounds' | 'publish' | 'subjects'>
  manifest: Pick<Manifest, 'entry'>
}

/**
 * Fills up the last segment with empty acknowledgments if the stream accepts no more requests. Only full segments are archived, and only archived
 * messages are deleted: if the messages that fill the stream are in an incomplete segment, the stream would stay closed for good, because no message
 * arrives to complete it. The padded segment is sealed, and processed two id windows later. Returns the number of messages stored.
 *
 * @param next - First segment that is not processed yet.
 */
export async function padSegment({ bus, manifest }: PadDeps, next: number): Promise<number> {
  if ((await bus.usage()).requests === 'open' || (await manifest.entry(next))) return 0
  const { first, last } = await bus.bounds()
  // The stream is empty, or its last message is in another segment.
  if (last < first || segmentOf(last) !== next) return 0
  const headers = { [HEADER.contentType]: CONTENT_TYPE.msgpack }
  const message = { subject: bus.subjects.acknowledged(SYSTEM), headers, data: encode({ v: 1, returns: packSequences([]) }) }
  let stored = 0
  for (let missing = segmentRange(next).last - last; missing > 0; missing -= CONCURRENCY) {
    const outcomes = await Promise.all(Array.from({ length: Math.min(CONCURRENCY, missing) }, () => bus.publish(message)))
    stored += outcomes.filter(({ kind }) => kind === 'stored').length
    // The stream has no room even for these, or the server does not answer. The next run tries again.
    if (outcomes.some(({ kind }) => kind !== 'stored')) break
  }
  return stored
}
