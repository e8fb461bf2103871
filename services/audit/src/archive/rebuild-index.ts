import { DigestIndexBuilder, type Frame, SegmentBuffer, sequenceOf, storedOf } from '@passover/archive'
import type { Bus } from '@passover/bus'
import { sessionOf } from '../pass/control-frame.js'
import { passNamedBy } from './archiver.js'

/** Builds the index of a segment from its frames, exactly as the archiver builds it from the stream. */
export function buildSegmentIndex({ subjects }: Pick<Bus, 'subjects'>, k: number, frames: readonly Frame[]): Uint8Array {
  const buffer = new SegmentBuffer(k, 0)
  const prints = new DigestIndexBuilder()
  for (const frame of frames) {
    prints.add(sequenceOf(frame), Buffer.from(frame.digest).toString('latin1'))
    if (frame.kind === 'erased') continue
    const stored = storedOf(frame.event)
    const fact = subjects.toFact(stored)
    buffer.add(stored, passNamedBy(stored, fact), sessionOf(stored, fact))
  }
  return buffer.index.encode(k, prints.bytes())
}
