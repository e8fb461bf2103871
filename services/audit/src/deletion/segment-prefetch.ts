import { framesIn, type Manifest, type ManifestEntry, storedOf } from '@passover/archive'
import type { ObjectStore, StoredMessage } from '@passover/bus'
import type { Clock } from '@passover/core'
import { forEachCooperative } from '../runtime/cooperative-loop.js'

/** An archived segment and the messages that remain in it. */
export interface ReadSegment {
  entry: ManifestEntry
  messages: StoredMessage[]
}

/** Reads segments in order, each while the one before it is being processed. */
export class SegmentPrefetch {
  readonly #deps: { manifest: Pick<Manifest, 'entry'>; objects: ObjectStore; clock: Clock }
  #ahead: { k: number; segment: Promise<ReadSegment | undefined> } | undefined

  constructor(deps: { manifest: Pick<Manifest, 'entry'>; objects: ObjectStore; clock: Clock }) {
    this.#deps = deps
  }

  /** Returns segment k, or `undefined` if there is none or it is not due. Throws SegmentDamaged. */
  async take(k: number, isDue: (entry: ManifestEntry) => boolean): Promise<ReadSegment | undefined> {
    const ahead = this.#ahead
    this.#ahead = undefined
    // A segment that was not due when it was prefetched may be due now.
    const segment = (ahead?.k === k ? await ahead.segment : undefined) ?? (await this.#read(k, isDue))
    if (!segment) return undefined
    const next = this.#read(k + 1, isDue)
    // Prevents an unhandled rejection. The error is thrown when the result is awaited.
    next.catch(() => undefined)
    this.#ahead = { k: k + 1, segment: next }
    return segment
  }

  async #read(k: number, isDue: (entry: ManifestEntry) => boolean): Promise<ReadSegment | undefined> {
    const entry = await this.#deps.manifest.entry(k)
    if (!entry || !isDue(entry)) return undefined
    const messages: StoredMessage[] = []
    // The deleter before this one did not record its progress. No message of the segment's passes was in the stream when it was removed.
    if (entry.removed) return { entry, messages }
    await forEachCooperative(await framesIn(this.#deps.objects, entry), this.#deps.clock, (frame) => {
      if (frame.kind === 'event') messages.push(storedOf(frame.event))
    })
    return { entry, messages }
  }
}
