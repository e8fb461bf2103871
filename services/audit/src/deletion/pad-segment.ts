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
 * Only full segments are archived, and only what is archived is deleted: a stream that takes no requests any more, while what fills it lies in a
 * segment that is not full, would stay shut for good, since nothing comes that fills it. Then the segment is filled up with acknowledgments of
 * nothing, so that it is sealed, and gone through two windows later. `next`: the first segment that is not done with. Gives how many were stored.
 */
export async function padSegment({ bus, manifest }: PadDeps, next: number): Promise<number> {
  if ((await bus.usage()).requests === 'open' || (await manifest.entry(next))) return 0
  const { first, last } = await bus.bounds()
  // Read late, or nothing is there.
  if (last < first || segmentOf(last) !== next) return 0
  const headers = { [HEADER.contentType]: CONTENT_TYPE.msgpack }
  const message = { subject: bus.subjects.acknowledged(SYSTEM), headers, data: encode({ v: 1, returns: packSequences([]) }) }
  let stored = 0
  for (let missing = segmentRange(next).last - last; missing > 0; missing -= CONCURRENCY) {
    const outcomes = await Promise.all(Array.from({ length: Math.min(CONCURRENCY, missing) }, () => bus.publish(message)))
    stored += outcomes.filter(({ kind }) => kind === 'stored').length
    // There is no room even for these, or nobody answers: the next look tries again.
    if (outcomes.some(({ kind }) => kind !== 'stored')) break
  }
  return stored
}
