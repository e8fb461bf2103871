import { encodeFrame, eventOf, type Manifest, segmentOf, segmentRange } from '@passover/archive'
import { decode, type ObjectStore } from '@passover/bus'
import { type Clock, entriesOf } from '@passover/core'
import { type CustodyErasure, custodyBody, type ErasedPass, HEADER, type PassRecord, SYSTEM } from '@passover/schemas'
import type { Logger } from 'pino'
import { type OrphanPartsDeps, removeOrphanParts } from '../archive/orphan-parts.js'
import { sweepOrphanChunks, sweepOrphanObjects } from '../archive/orphan-sweep.js'
import { firstSequence } from '../records/list-cursor.js'
import { recordFilter } from '../records/record-store.js'
import { forEachConcurrent } from '../runtime/concurrency.js'
import { SingleFlightTask } from '../runtime/single-flight-task.js'
import type { Indexer } from '../search/index/indexer.js'
import type { CustodyWatcher } from '../watchers/custody-watcher.js'
import { publishCustodyEvent, type SystemCustodyEvent } from './publish-custody-event.js'
import { type RedactDeps, redactSegment } from './redact-segment.js'
import { findSessionPasses, type SessionDeps, type SessionPass, type SessionPasses } from './session-passes.js'
import { countPasses, sequencesByPass, tombstoneBatches } from './tombstones.js'

interface Tombstones {
  passes: ErasedPass[]
  /** Sequence of the first. */
  first: number
}

export interface EraserDeps extends SessionDeps, OrphanPartsDeps, RedactDeps {
  archive: SessionDeps['archive']
  clock: Clock
  log: Logger
  watch: CustodyWatcher
  indexing: Pick<Indexer, 'erase'>
}

const CONCURRENCY = 16
/** Originators that a refusal names. */
const MAX_NAMED_ORIGINATORS = 10
/** One that must wait is looked at again after this at the latest. */
const MAX_WAIT_MS = 300_000
/** One that failed, after this, and each time after twice as long: all indexes of the archive are looked through for it. */
const RETRY_DELAY_MS = 5_000

/**
 * Does the erasures that people asked for (decision 100), one after the other: tombstones first, then all that they stand for, then `done`.
 * Each step may be done again, so what broke off is begun anew; of several audits each may do it, and what they say is guarded.
 */
export class Eraser {
  /** Since when one may be looked at again, and what failed how often. */
  private readonly again = new Map<number, { at: number; failed?: { error: unknown; times: number } }>()
  /** Writings of objects that had begun when an erasure was done but for them. */
  private readonly begun = new Map<number, ReadonlySet<string>>()
  private readonly looking = new SingleFlightTask(
    () => this.work(),
    () => undefined,
  )

  constructor(private readonly deps: EraserDeps) {}

  /** Why what people asked for is not done yet. */
  get trouble(): string | undefined {
    return this.looking.trouble
  }

  /** Does what is due; at once where it is at it already. */
  look(): Promise<void> {
    return this.looking.run()
  }

  stop(): Promise<void> {
    return this.looking.stop()
  }

  /** One that cannot be done keeps no other from being done. */
  private async work(): Promise<void> {
    const { watch, bus, clock, log } = this.deps
    if (!watch.custody.pending || !bus.clockMeasured) return
    let failed: { error: unknown } | undefined
    for (const erasure of (await watch.current()).erasures) {
      if (isEnded(erasure) || this.looking.stopped) continue
      const again = this.again.get(erasure.erase)
      if (again && again.at > clock.monotonic()) {
        failed ??= again.failed
        continue
      }
      await this.erase(erasure).catch((error: unknown) => {
        failed ??= { error }
        const times = (again?.failed?.times ?? 0) + 1
        this.again.set(erasure.erase, { at: clock.monotonic() + retryDelay(times), failed: { error, times } })
        log.warn({ err: error, erase: erasure.erase }, 'an erasure is not done yet')
      })
    }
    if (failed) throw failed.error
  }

  private async erase(erasure: CustodyErasure): Promise<void> {
    const { watch, bus, clock, log } = this.deps
    // What is said about custody meanwhile is heard before a tombstone is set: a hold, or what another audit did.
    const { position } = await watch.current()
    if (isEnded(erasure)) return
    const { erase } = erasure
    this.again.delete(erase)
    await assertNoRemovedSegments(this.deps.manifest, this.deps.objects)
    const before = await this.tombstones(erase)
    const found = await this.found(erasure)
    const passes = without(found.passes, before)
    const refusal = before.passes.length === 0 ? this.refusal(erasure, found) : undefined
    if (refusal !== undefined) return void (await this.say({ kind: 'refused', erase, why: refusal }, position))
    const wait = passes.reduce((latest, { settled }) => Math.max(latest, settled), 0) + 2 * this.deps.rules.id_window_ms - bus.now()
    if (wait > 0) {
      // A journal that left earlier could be begun anew by who asks again (rule 4).
      this.again.set(erase, { at: clock.monotonic() + Math.min(wait, MAX_WAIT_MS) })
      return
    }
    let after: number | undefined = position
    for (const batch of tombstoneBatches(passes)) {
      after = await this.say({ kind: 'erased', erase, passes: batch }, after)
      if (after === undefined) return
    }
    const stones = (await this.tombstones(erase)).passes
    const sessions = new Set([erasure.session, '', ...found.passes.flatMap(({ claimed }) => claimed ?? [])])
    const parts = await this.replace(sessions, stones)
    await this.leaveNoPieces(erase)
    const now = await watch.current()
    if (isEnded(erasure)) return
    const done = { kind: 'done' as const, erase, passes: countPasses(stones), entries: entriesOf(stones).length, parts }
    if ((await this.say(done, now.position)) === undefined) return
    log.info({ erase, by: erasure.by, passes: countPasses(stones) }, 'session erased')
  }

  /** What was said of it so far: tombstones stay in the stream. */
  private async tombstones(erase: number): Promise<Tombstones> {
    const { bus } = this.deps
    const found: Tombstones = { passes: [], first: Number.POSITIVE_INFINITY }
    await using reader = await bus.follow({ filters: [bus.subjects.custody(SYSTEM)], from: erase }, ({ sequence, headers, data }, fact) => {
      if (fact.type === 'untrusted') return
      const body = decode(data, headers.get(HEADER.contentType))
      const parsed = body.ok ? custodyBody.safeParse(body.value) : undefined
      if (!parsed?.success || parsed.data.kind !== 'erased' || parsed.data.erase !== erase) return
      found.passes.push(...parsed.data.passes)
      found.first = Math.min(found.first, sequence)
    })
    await Promise.race([reader.caughtUp, reader.closed])
    return found
  }

  /** The session's passes that began before it was asked for. */
  private found({ erase, session, originator }: CustodyErasure): Promise<SessionPasses> {
    return findSessionPasses(this.deps, { session, originator, before: erase })
  }

  private refusal({ by, originator }: CustodyErasure, { passes, originators }: SessionPasses): string | undefined {
    if (this.deps.agents.has(by)) return `${by} is an agent`
    if (originator === undefined && originators.length > 1) {
      const more = originators.length > MAX_NAMED_ORIGINATORS ? ` and ${originators.length - MAX_NAMED_ORIGINATORS} others` : ''
      return `${originators.slice(0, MAX_NAMED_ORIGINATORS).join(', ')}${more} have a session of this name: name the originator`
    }
    const [hold] = passes.flatMap(({ held }) => held)
    if (hold !== undefined) return `hold ${hold} stands`
    const open = passes.filter((pass) => pass.open !== undefined)
    const [first] = open
    return first && `${open.length} of its passes are not done with; ${first.key.id}: ${first.open}`
  }

  /** Everywhere. Gives how many parts went. */
  private async replace(sessions: ReadonlySet<string>, stones: readonly ErasedPass[]): Promise<number> {
    const { manifest, objects } = this.deps
    const digests = new Map<number, string>()
    for (const { sequence, digest } of entriesOf(stones)) digests.set(sequence, Buffer.from(digest).toString('latin1'))
    const segments = [...new Set([...digests.keys()].map(segmentOf))].sort((a, b) => a - b)
    // First, while the passes still say the sessions that they claim: whoever begins this anew reads no more of what is erased.
    await this.eraseRecords(sessions, digests)
    await this.rewrite(segments, digests)
    await forEachConcurrent(
      sequencesByPass(stones),
      () => CONCURRENCY,
      (sequences) => this.deleteMessages(sequences, digests),
    )
    await this.eraseRecords(sessions, digests)
    // One that was open before may have been sealed meanwhile; one that is being sealed may not know of the tombstones.
    const open = await this.rewrite(segments, digests)
    const { last } = await this.deps.bus.bounds()
    const full = open.find((k) => segmentRange(k).last <= last)
    if (full !== undefined) throw new Error(`segment ${full} is being sealed`)
    await sweepOrphanObjects(manifest, objects)
    return await removeOrphanParts(
      this.deps,
      new Set(stones.flatMap(({ parts }) => parts.map(([owner, token]) => `${owner}/${token}`))),
      digests,
    )
  }

  /** Of what was being written before all was replaced, something that is to go may stand in it until it is an object, or given up. */
  private async leaveNoPieces(erase: number): Promise<void> {
    const going = await sweepOrphanChunks(this.deps.bus, this.deps.objects)
    const begun = this.begun.get(erase) ?? new Set(going)
    this.begun.set(erase, begun)
    if (going.some((id) => begun.has(id))) throw new Error('an object of the archive is being written, or was given up some minutes ago')
    this.begun.delete(erase)
  }

  /** Gives those that are not sealed yet. */
  private async rewrite(segments: readonly number[], digests: ReadonlyMap<number, string>): Promise<number[]> {
    const open: number[] = []
    for (const k of segments) {
      if (this.looking.stopped) throw new Error('it was stopped')
      if (!(await redactSegment(this.deps, k, digests))) open.push(k)
    }
    return open
  }

  /** In this order, each confirmed before the next. What stands under a sequence must be what the tombstone stands for. */
  private async deleteMessages(sequences: readonly number[], digests: ReadonlyMap<number, string>): Promise<void> {
    const { journal } = this.deps.bus
    for (const sequence of sequences) {
      if (this.looking.stopped) throw new Error('it was stopped')
      const stored = await journal.message(sequence)
      if (!stored) continue
      if (Buffer.from(encodeFrame(eventOf(stored)).digest).toString('latin1') !== digests.get(sequence)) {
        throw new Error(`sequence ${sequence} of the stream is not what its tombstone stands for: it is not erased`)
      }
      await journal.deleteMessage(sequence, 'overwrite')
    }
  }

  private async eraseRecords(sessions: ReadonlySet<string>, digests: ReadonlyMap<number, string>): Promise<void> {
    const { table, log, indexing } = this.deps
    const goes = ({ value }: { value: PassRecord }) => digests.has(firstSequence(value.sequences))
    let kept = 0
    // What was refused may have a record that does not know its session.
    for (const session_id of sessions) {
      for await (const { key, value } of table.entries(recordFilter({ session_id }))) {
        // Its last message may be younger than the tombstones: agents may store events at any time.
        if (goes({ value }) && !(await indexing.erase(key, goes))) kept++
      }
    }
    if (kept > 0) log.warn({ records: kept }, 'records of an older bucket: their bytes lie on disk until the server compacts')
  }

  /** Gives its sequence. Undefined: something was said about custody after `position`, and it is looked at again. */
  private say(said: Extract<SystemCustodyEvent, { erase: number }>, position: number): Promise<number | undefined> {
    return publishCustodyEvent(this.deps, said, { position, failure: `what was done about erasure ${said.erase} was not stored` })
  }
}

/** Ms after which one is looked at again that failed so often. */
export function retryDelay(times: number): number {
  return Math.min(MAX_WAIT_MS, RETRY_DELAY_MS * 2 ** (times - 1))
}

/**
 * What no tombstone stands for yet. What agents stored after the first tombstone leaves the stream by itself: were it to have tombstones too when an
 * erasure is begun again, agents that go on storing could keep one from ever being done.
 */
function without(passes: readonly SessionPass[], stones: Tombstones): SessionPass[] {
  const named = new Set(entriesOf(stones.passes).map(({ sequence }) => sequence))
  return passes.flatMap((pass) => {
    const frames = pass.frames.filter(([sequence]) => sequence < stones.first && !named.has(sequence))
    return frames.length > 0 ? [{ ...pass, frames }] : []
  })
}

/** By what was said since it was looked at. */
function isEnded({ state }: CustodyErasure): boolean {
  return state !== 'pending'
}

/**
 * Throws where the objects of a segment are there that is marked as removed: no index is read any more that says what of a session they hold. They
 * leave soon where retention took the segment out, and stay as evidence where somebody else marked it.
 */
async function assertNoRemovedSegments(manifest: Pick<Manifest, 'all'>, objects: Pick<ObjectStore, 'list'>): Promise<void> {
  const there = new Set(await objects.list())
  const standing = (await manifest.all()).find(({ removed, object, index }) => removed && (there.has(object) || there.has(index)))
  if (standing)
    throw new Error(`segment ${standing.k} is marked as removed and its objects are there: what it holds of the session would stay`)
}
