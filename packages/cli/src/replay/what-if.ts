import { ARCHIVE_BUCKET, type ArchiveSource, eventOf, liveArchive, Manifest, sequenceAfter } from '@passover/archive'
import type { Bus, Subjects } from '@passover/bus'
import { type ChangedDecision, type ErasedDigest, type FirstStep, LimitCounters, OpenPasses, StreamVerifier, whatIf } from '@passover/core'
import type { PassKey, PassOverPreferences } from '@passover/schemas'
import { readRange } from '../stored-messages/read-range.js'
import { StoredRecord, subjectsFrom } from '../stored-messages/stored-record.js'
import { type ArchiveVisitor, walkArchive } from '../stored-messages/walk-archive.js'

export interface WhatIfOptions {
  document: PassOverPreferences
  id_window_ms: number
  session?: string | undefined
  /** Server time in milliseconds. */
  since?: number | undefined
  until?: number | undefined
  onOtherwise(found: ChangedDecision): void
  onProgress?: ((events: number) => void) | undefined
  /** Called after each segment of an archive, before the next one is read. */
  onSegment?: (() => Promise<void>) | undefined
}

export interface WhatIfCounts {
  events: number
  decided: number
  same: number
  otherwise: number
  /** Number of decisions made by a limit, the time or a person, which are taken as recorded. */
  taken: number
  /** Number of changed decisions by kind, such as `admitted → E004`. */
  kinds: Record<string, number>
}

const PROGRESS_EVERY = 4_096

/** Evaluates recorded requests in order under another policy. Limits count what was recorded. */
export class WhatIfRun implements ArchiveVisitor {
  readonly #options: WhatIfOptions
  readonly counts: WhatIfCounts = { events: 0, decided: 0, same: 0, otherwise: 0, taken: 0, kinds: {} }
  readonly #verifier: StreamVerifier
  readonly #open: OpenPasses
  readonly #counters: LimitCounters
  #subjects: Subjects | undefined

  constructor(options: WhatIfOptions, subjects?: Subjects) {
    this.#options = options
    const { id_window_ms } = options
    this.#subjects = subjects
    this.#open = new OpenPasses({ id_window_ms, look_after_ms: id_window_ms })
    this.#counters = new LimitCounters(() => ({ open: this.#open, ready: true }), 2 * id_window_ms)
    this.#verifier = new StreamVerifier({
      id_window_ms,
      from: 1,
      onFinding: () => undefined,
      onBegin: (beginning) => this.#begin(beginning),
    })
  }

  event(event: Parameters<ArchiveVisitor['event']>[0]): void {
    this.#subjects ??= subjectsFrom(event.subject)
    const recorded = new StoredRecord(event, this.#subjects)
    this.#verifier.add(recorded)
    // Applied after the decision, because a pass does not count against its own limits.
    this.#open.apply(recorded.fact)
    if (++this.counts.events % PROGRESS_EVERY === 0) this.#options.onProgress?.(this.counts.events)
  }

  erased(entry: ErasedDigest, pass?: PassKey): void {
    this.#verifier.erased(entry, pass)
  }

  async segment(): Promise<void> {
    await this.#options.onSegment?.()
  }

  /** Damage is ignored here, because `verify` reports it. */
  fault(): void {}

  #begin(beginning: FirstStep): void {
    if (!this.#isAsked(beginning)) return
    const options = this.#options
    const { counts } = this
    counts.decided++
    const result = whatIf(beginning, options.document, this.#counters.for(beginning.step.key))
    if (result.kind !== 'otherwise') {
      counts[result.kind]++
      return
    }
    const { otherwise } = result
    counts.otherwise++
    const kind =
      otherwise.before === otherwise.after ? `${otherwise.before}, with other settings` : `${otherwise.before} → ${otherwise.after}`
    counts.kinds[kind] = (counts.kinds[kind] ?? 0) + 1
    options.onOtherwise(otherwise)
  }

  #isAsked({ asked }: FirstStep): boolean {
    const { session, since, until } = this.#options
    const { time } = asked.fact
    if ((since !== undefined && time < since) || (until !== undefined && time > until)) return false
    if (session === undefined) return true
    const reading = asked.recorded.reading()
    return reading.ok && reading.value.session_id === session
  }
}

/** Evaluates a saved archive. Throws ArchiveUnreadable. */
export async function whatIfArchive(source: ArchiveSource, options: WhatIfOptions): Promise<WhatIfCounts> {
  const run = new WhatIfRun(options)
  await walkArchive(source, run)
  return run.counts
}

/** Evaluates an installation's archive, then the stream after it. */
export async function whatIfLive(bus: Bus, options: WhatIfOptions): Promise<WhatIfCounts> {
  const run = new WhatIfRun(options, bus.subjects)
  const manifest = await Manifest.open(bus)
  const { first, last } = await bus.bounds()
  // Messages archived in the meantime are read only once: the stream is read from after the last segment that was read.
  const { newest } = await walkArchive(liveArchive(manifest, await bus.objects(ARCHIVE_BUCKET)), run)
  await readRange(bus, { from: newest ? sequenceAfter(newest) : Math.max(1, first), up_to: last }, (stored) => run.event(eventOf(stored)))
  return run.counts
}
