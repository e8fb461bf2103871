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
  /** Sequence of the first tombstone. */
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
/** Maximum number of originators that a refusal names. */
const MAX_NAMED_ORIGINATORS = 10
/** Maximum milliseconds until a waiting or failed erasure is tried again. */
const MAX_WAIT_MS = 300_000
/** Milliseconds until a failed erasure is tried again, doubled with each failure: every attempt searches all indexes of the archive. */
const RETRY_DELAY_MS = 5_000

/**
 * Executes requested erasures one after the other (decision 100): sets the tombstones, deletes everything that they cover, then publishes `done`.
 * Every step can be repeated, so an interrupted erasure is started over. Several audits may work on the same erasure; their events are guarded.
 */
export class Eraser {
  readonly #deps: EraserDeps
  /** For each erasure, the time of its next attempt, and its last error with the number of failures. */
  readonly #again = new Map<number, { at: number; failed?: { error: unknown; times: number } }>()
  /** For each erasure, the object writes that were in progress when everything else was done. */
  readonly #begun = new Map<number, ReadonlySet<string>>()
  readonly #task = new SingleFlightTask(
    () => this.#work(),
    () => undefined,
  )

  constructor(deps: EraserDeps) {
    this.#deps = deps
  }

  /** Reason why a requested erasure is not done yet. */
  get trouble(): string | undefined {
    return this.#task.trouble
  }

  /** Runs the erasures that are due. During a run, returns that run. */
  look(): Promise<void> {
    return this.#task.run()
  }

  stop(): Promise<void> {
    return this.#task.stop()
  }

  /** Runs each pending erasure that is due. One that fails does not stop the others. */
  async #work(): Promise<void> {
    const { watch, bus, clock, log } = this.#deps
    if (!watch.custody.pending || !bus.clockMeasured) return
    let failed: { error: unknown } | undefined
    for (const erasure of (await watch.current()).erasures) {
      if (isEnded(erasure) || this.#task.stopped) continue
      const again = this.#again.get(erasure.erase)
      if (again && again.at > clock.monotonic()) {
        failed ??= again.failed
        continue
      }
      await this.#erase(erasure).catch((error: unknown) => {
        failed ??= { error }
        const times = (again?.failed?.times ?? 0) + 1
        this.#again.set(erasure.erase, { at: clock.monotonic() + retryDelay(times), failed: { error, times } })
        log.warn({ err: error, erase: erasure.erase }, 'erasure not finished yet')
      })
    }
    if (failed) throw failed.error
  }

  async #erase(erasure: CustodyErasure): Promise<void> {
    const { watch, bus, clock, log } = this.#deps
    // Reads the custody events stored since, such as a hold or the work of another audit, before a tombstone is set.
    const { position } = await watch.current()
    if (isEnded(erasure)) return
    const { erase } = erasure
    this.#again.delete(erase)
    await assertNoRemovedSegments(this.#deps.manifest, this.#deps.objects)
    const before = await this.#tombstones(erase)
    const found = await this.#found(erasure)
    const passes = without(found.passes, before)
    const refusal = before.passes.length === 0 ? this.#refusal(erasure, found) : undefined
    if (refusal !== undefined) return void (await this.#say({ kind: 'refused', erase, why: refusal }, position))
    const wait = passes.reduce((latest, { settled }) => Math.max(latest, settled), 0) + 2 * this.#deps.rules.id_window_ms - bus.now()
    if (wait > 0) {
      // If a journal left the stream earlier, a repeated request could begin the pass again (rule 4).
      this.#again.set(erase, { at: clock.monotonic() + Math.min(wait, MAX_WAIT_MS) })
      return
    }
    let after: number | undefined = position
    for (const batch of tombstoneBatches(passes)) {
      after = await this.#say({ kind: 'erased', erase, passes: batch }, after)
      if (after === undefined) return
    }
    const stones = (await this.#tombstones(erase)).passes
    const sessions = new Set([erasure.session, '', ...found.passes.flatMap(({ claimed }) => claimed ?? [])])
    const parts = await this.#replace(sessions, stones)
    await this.#leaveNoPieces(erase)
    const now = await watch.current()
    if (isEnded(erasure)) return
    const done = { kind: 'done' as const, erase, passes: countPasses(stones), entries: entriesOf(stones).length, parts }
    if ((await this.#say(done, now.position)) === undefined) return
    log.info({ erase, by: erasure.by, passes: countPasses(stones) }, 'session erased')
  }

  /** Reads the tombstones of an erasure. They stay in the stream. */
  async #tombstones(erase: number): Promise<Tombstones> {
    const { bus } = this.#deps
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

  /** Finds the passes of the session that began before the erasure was requested. */
  #found({ erase, session, originator }: CustodyErasure): Promise<SessionPasses> {
    return findSessionPasses(this.#deps, { session, originator, before: erase })
  }

  #refusal({ by, originator }: CustodyErasure, { passes, originators }: SessionPasses): string | undefined {
    if (this.#deps.agents.has(by)) return `${by} is an agent`
    if (originator === undefined && originators.length > 1) {
      const more = originators.length > MAX_NAMED_ORIGINATORS ? ` and ${originators.length - MAX_NAMED_ORIGINATORS} others` : ''
      return `${originators.slice(0, MAX_NAMED_ORIGINATORS).join(', ')}${more} have a session with this name: name the originator`
    }
    const [hold] = passes.flatMap(({ held }) => held)
    if (hold !== undefined) return `the session is under legal hold ${hold}`
    const open = passes.filter((pass) => pass.open !== undefined)
    const [first] = open
    return first && `${open.length} of its passes are still open; ${first.key.id}: ${first.open}`
  }

  /** Replaces the messages everywhere: in records, segments, stream and parts. Returns how many parts were deleted. */
  async #replace(sessions: ReadonlySet<string>, stones: readonly ErasedPass[]): Promise<number> {
    const { manifest, objects } = this.#deps
    const digests = new Map<number, string>()
    for (const { sequence, digest } of entriesOf(stones)) digests.set(sequence, Buffer.from(digest).toString('latin1'))
    const segments = [...new Set([...digests.keys()].map(segmentOf))].sort((a, b) => a - b)
    // The records come first, while the sessions that the passes claim are known: after a restart, erased messages cannot be read.
    await this.#eraseRecords(sessions, digests)
    await this.#rewrite(segments, digests)
    await forEachConcurrent(
      sequencesByPass(stones),
      () => CONCURRENCY,
      (sequences) => this.#deleteMessages(sequences, digests),
    )
    await this.#eraseRecords(sessions, digests)
    // A segment that was open before may be sealed by now, and one that is being sealed may not include the tombstones.
    const open = await this.#rewrite(segments, digests)
    const { last } = await this.#deps.bus.bounds()
    const full = open.find((k) => segmentRange(k).last <= last)
    if (full !== undefined) throw new Error(`segment ${full} is being sealed`)
    await sweepOrphanObjects(manifest, objects)
    return await removeOrphanParts(
      this.#deps,
      new Set(stones.flatMap(({ parts }) => parts.map(([owner, token]) => `${owner}/${token}`))),
      digests,
    )
  }

  /** Removes orphaned chunks. Throws while an object write that began before the replacement may still hold erased messages. */
  async #leaveNoPieces(erase: number): Promise<void> {
    const going = await sweepOrphanChunks(this.#deps.bus, this.#deps.objects)
    const begun = this.#begun.get(erase) ?? new Set(going)
    this.#begun.set(erase, begun)
    if (going.some((id) => begun.has(id)))
      throw new Error('an object of the archive is being written, or its writer stopped a few minutes ago')
    this.#begun.delete(erase)
  }

  /** Rewrites segments without the erased messages. Returns those that are not sealed yet. */
  async #rewrite(segments: readonly number[], digests: ReadonlyMap<number, string>): Promise<number[]> {
    const open: number[] = []
    for (const k of segments) {
      if (this.#task.stopped) throw new Error('it was stopped')
      if (!(await redactSegment(this.#deps, k, digests))) open.push(k)
    }
    return open
  }

  /** Deletes messages in the given order and confirms each deletion before the next. Throws if a message does not match its tombstone. */
  async #deleteMessages(sequences: readonly number[], digests: ReadonlyMap<number, string>): Promise<void> {
    const { journal } = this.#deps.bus
    for (const sequence of sequences) {
      if (this.#task.stopped) throw new Error('it was stopped')
      const stored = await journal.message(sequence)
      if (!stored) continue
      if (Buffer.from(encodeFrame(eventOf(stored)).digest).toString('latin1') !== digests.get(sequence)) {
        throw new Error(`sequence ${sequence} of the stream does not match its tombstone; it is not erased`)
      }
      await journal.deleteMessage(sequence, 'overwrite')
    }
  }

  async #eraseRecords(sessions: ReadonlySet<string>, digests: ReadonlyMap<number, string>): Promise<void> {
    const { table, log, indexing } = this.#deps
    const goes = ({ value }: { value: PassRecord }) => digests.has(firstSequence(value.sequences))
    let kept = 0
    // The record of a refused request may not contain its session.
    for (const session_id of sessions) {
      for await (const { key, value } of table.entries(recordFilter({ session_id }))) {
        // Only the first message is compared. Later ones may be younger than the tombstones, because agents may store events at any time.
        if (goes({ value }) && !(await indexing.erase(key, goes))) kept++
      }
    }
    if (kept > 0)
      log.warn(
        { records: kept },
        'the bucket of records was created by an older version: erased bytes stay on disk until the server compacts it',
      )
  }

  /**
   * Publishes a custody event and returns its sequence. Returns `undefined` if another one came after `position`: the erasure is then checked again.
   */
  #say(event: Extract<SystemCustodyEvent, { erase: number }>, position: number): Promise<number | undefined> {
    return publishCustodyEvent(this.#deps, event, { position, failure: `the event about erasure ${event.erase} was not stored` })
  }
}

/** Returns the milliseconds until the next attempt after the given number of failures: 5 s, doubled with each failure, at most 5 min. */
export function retryDelay(times: number): number {
  return Math.min(MAX_WAIT_MS, RETRY_DELAY_MS * 2 ** (times - 1))
}

/**
 * Returns the passes with only those messages that have no tombstone yet. Messages that agents stored after the first tombstone are left to the
 * normal deletion: if every new attempt set tombstones for them, agents that keep storing messages could prevent an erasure from ever completing.
 */
function without(passes: readonly SessionPass[], stones: Tombstones): SessionPass[] {
  const named = new Set(entriesOf(stones.passes).map(({ sequence }) => sequence))
  return passes.flatMap((pass) => {
    const frames = pass.frames.filter(([sequence]) => sequence < stones.first && !named.has(sequence))
    return frames.length > 0 ? [{ ...pass, frames }] : []
  })
}

/** True if the erasure has ended according to the custody events read since. */
function isEnded({ state }: CustodyErasure): boolean {
  return state !== 'pending'
}

/**
 * Throws if a segment is marked as removed but its objects still exist: no index shows any more which sessions they hold. Objects of a segment that
 * retention removed disappear soon; if somebody else marked it, they stay as evidence.
 */
async function assertNoRemovedSegments(manifest: Pick<Manifest, 'all'>, objects: Pick<ObjectStore, 'list'>): Promise<void> {
  const there = new Set(await objects.list())
  const standing = (await manifest.all()).find(({ removed, object, index }) => removed && (there.has(object) || there.has(index)))
  if (standing)
    throw new Error(
      `segment ${standing.k} is marked as removed, but its objects still exist; messages of the session in it would not be erased`,
    )
}
