import { framesIn, type Manifest, type ManifestEntry } from '@passover/archive'
import { type ObjectStore, readHeaders, type StoredMessage } from '@passover/bus'
import type { Clock } from '@passover/core'
import { forEachCooperative } from '../runtime/cooperative-loop.js'

/** An archived segment, and what is left of its messages there. */
export interface ReadSegment {
  entry: ManifestEntry
  messages: StoredMessage[]
}

/** Reads segments one after the other, each while the one before is still being gone through. */
export class SegmentPrefetch {
  private ahead: { k: number; segment: Promise<ReadSegment | undefined> } | undefined

  constructor(private readonly deps: { manifest: Pick<Manifest, 'entry'>; objects: ObjectStore; clock: Clock }) {}

  /** Segment k; undefined: there is none, or it is not due. Throws SegmentDamaged. */
  async take(k: number, isDue: (entry: ManifestEntry) => boolean): Promise<ReadSegment | undefined> {
    const { ahead } = this
    this.ahead = undefined
    // What was not due a moment ago may be now.
    const segment = (ahead?.k === k ? await ahead.segment : undefined) ?? (await this.read(k, isDue))
    if (!segment) return undefined
    const next = this.read(k + 1, isDue)
    // Whoever takes it is told.
    next.catch(() => undefined)
    this.ahead = { k: k + 1, segment: next }
    return segment
  }

  private async read(k: number, isDue: (entry: ManifestEntry) => boolean): Promise<ReadSegment | undefined> {
    const entry = await this.deps.manifest.entry(k)
    if (!entry || !isDue(entry)) return undefined
    const messages: StoredMessage[] = []
    // Whoever deleted before did not get to say so; nothing of a pass stood in the stream when it was removed.
    if (entry.removed) return { entry, messages }
    await forEachCooperative(await framesIn(this.deps.objects, entry), this.deps.clock, (frame) => {
      if (frame.kind === 'event') messages.push({ ...frame.event, headers: readHeaders(frame.event.headers) })
    })
    return { entry, messages }
  }
}
