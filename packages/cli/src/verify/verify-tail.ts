import {
  type ArchivedEvent,
  type ArchiveSource,
  Chain,
  type ErasedEntry,
  encodeFrame,
  eventOf,
  type FolderWriter,
  type Manifest,
  SegmentBuffer,
  sealInMemory,
  segmentOf,
  sequenceAfter,
  storedOf,
} from '@passover/archive'
import type { Bus } from '@passover/bus'
import { type ReadRange, readCustodyAndPolicy, readRange } from '../stored-messages/read-range.js'
import { type ArchiveWalk, GENESIS_HEX } from '../stored-messages/walk-archive.js'
import { DeletedDuringRead } from './deleted-during-read.js'
import type { Verification } from './verify-archive.js'

interface VerifyTailDeps {
  bus: Bus
  verification: Verification
  manifest: Manifest
  source: ArchiveSource
  walked: ArchiveWalk
  saved: FolderWriter | undefined
}

interface TailSpan extends ReadRange {
  /** True if reading starts where the archive ends; otherwise the chain cannot be checked. */
  chained: boolean
  /** Sequence from which on nothing may be missing. */
  unbroken: number
}

/** Verifies the stream after the last segment. When saving, seals it locally; the chain continues as it will in the archive. */
export async function verifyTail(deps: VerifyTailDeps, { from, up_to, chained, unbroken }: TailSpan): Promise<void> {
  const { bus, verification, manifest } = deps
  const gaps = new Gaps(unbroken)
  const tail = new Tail(deps, { from, chained, gaps })
  await readRange(bus, { from, up_to }, (stored) => tail.event(eventOf(stored)))
  await tail.end(up_to)
  // Reads later custody and policy events: tombstones of erasures done in the meantime, and changed retention.
  await readCustodyAndPolicy(
    bus,
    { from: Math.max(from, up_to + 1), up_to: Number.POSITIVE_INFINITY },
    (stored) => void verification.event(eventOf(stored)),
  )
  await sayMissing(verification, manifest, gaps.until(up_to))
}

/** Collects the sequences that were not read. */
class Gaps {
  #expected: number
  readonly #found: ReadRange[] = []

  constructor(expected: number) {
    this.#expected = expected
  }

  see(sequence: number): void {
    if (sequence > this.#expected) this.#found.push({ from: this.#expected, up_to: sequence - 1 })
    this.#expected = sequence + 1
  }

  until(last: number): readonly ReadRange[] {
    this.see(last + 1)
    return this.#found
  }
}

class Tail {
  readonly #deps: VerifyTailDeps
  readonly #left: DeletedDuringRead
  readonly #gaps: Gaps
  readonly #chained: boolean
  #expected: number
  #chain_before: string
  #chain: Chain
  #buffer: SegmentBuffer | undefined
  #sequence = 0
  #digests: Uint8Array[] = []

  constructor(deps: VerifyTailDeps, { from, chained, gaps }: { from: number; chained: boolean; gaps: Gaps }) {
    this.#deps = deps
    this.#left = new DeletedDuringRead(deps, from)
    this.#gaps = gaps
    this.#chained = chained
    this.#expected = from
    this.#chain_before = deps.walked.newest?.chain_after ?? GENESIS_HEX
    this.#chain = new Chain(Buffer.from(this.#chain_before, 'hex'))
  }

  async event(event: ArchivedEvent): Promise<void> {
    await this.#before(event.sequence)
    await this.#judge(event)
  }

  async end(up_to: number): Promise<void> {
    await this.#before(up_to + 1)
    await this.#seal()
  }

  /** Handles entries that were deleted in the meantime. */
  async #before(next: number): Promise<void> {
    if (this.#expected < next) {
      for (const left of await this.#left.within({ from: this.#expected, up_to: next - 1 })) {
        if (left.kind === 'event') await this.#judge(left.event)
        else {
          ;(await this.#take(left.entry)).addErased(left.entry)
          this.#deps.verification.erased(left.entry)
        }
      }
    }
    this.#expected = next + 1
  }

  async #judge(event: ArchivedEvent): Promise<void> {
    const { bus, verification } = this.#deps
    const buffer = await this.#take({ ...event, digest: encodeFrame(event).digest })
    const stored = storedOf(event)
    buffer.add(stored, bus.subjects.toFact(stored), undefined)
    await verification.event(event)
  }

  async #take({ sequence, digest }: ErasedEntry): Promise<SegmentBuffer> {
    const k = segmentOf(sequence)
    if (this.#buffer?.k !== k) {
      await this.#seal()
      this.#buffer = new SegmentBuffer(k, this.#deps.saved ? undefined : 0)
    }
    this.#sequence = sequence
    this.#gaps.see(sequence)
    this.#chain.add(digest)
    this.#digests.push(digest)
    return this.#buffer
  }

  async #seal(): Promise<void> {
    const chain_before = this.#chain_before
    const buffer = this.#buffer
    const { saved, verification, walked } = this.#deps
    if (!buffer) return
    const value = this.#chain.end()
    if (saved) {
      const { entry, object, index } = await sealInMemory(buffer, { chain_before })
      await saved.add(entry, { object, index })
    }
    await verification.segment()
    verification.chain(chain_before, this.#digests)
    this.#digests = []
    this.#chain_before = value
    this.#chain = new Chain(Buffer.from(value, 'hex'))
    if (!this.#chained) return
    walked.head = { sequence: this.#sequence, hash: value }
    walked.values.push(walked.head)
  }
}

/** Reports missing entries. Nothing leaves the stream before it is archived, so an entry in neither was taken out, which no other rule detects. */
async function sayMissing(verification: Verification, manifest: Manifest, gaps: readonly ReadRange[]): Promise<void> {
  // Segments archived during the read may have been removed since.
  const newest = gaps.length > 0 ? await manifest.newest() : undefined
  for (const { from, up_to } of gaps) {
    if (newest && from < sequenceAfter(newest)) continue
    const what = `${from === up_to ? 'is' : `to ${up_to} are`} neither in the archive nor in the stream`
    verification.findings.fault({ sequence: from, rule: 'chain', what })
  }
}
