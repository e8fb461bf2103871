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
  /** Server ms. */
  since?: number | undefined
  until?: number | undefined
  onOtherwise(found: ChangedDecision): void
  onProgress?: ((events: number) => void) | undefined
  /** Before the next segment of an archive is read. */
  onSegment?: (() => Promise<void>) | undefined
}

export interface WhatIfCounts {
  events: number
  decided: number
  same: number
  otherwise: number
  /** Decided by a limit, the time or a person: taken as they are recorded. */
  taken: number
  /** What would become of what: `admitted → E004`, how often. */
  kinds: Record<string, number>
}

const PROGRESS_EVERY = 4_096

/** Runs recorded requests through the decision logic with another policy, in order; limits count what was recorded. */
export class WhatIfRun implements ArchiveVisitor {
  readonly counts: WhatIfCounts = { events: 0, decided: 0, same: 0, otherwise: 0, taken: 0, kinds: {} }
  private readonly verifier: StreamVerifier
  private readonly open: OpenPasses
  private readonly counting: LimitCounters
  private subjects: Subjects | undefined

  constructor(
    private readonly options: WhatIfOptions,
    subjects?: Subjects,
  ) {
    const { id_window_ms } = options
    this.subjects = subjects
    this.open = new OpenPasses({ id_window_ms, look_after_ms: id_window_ms })
    this.counting = new LimitCounters(() => ({ open: this.open, ready: true }), 2 * id_window_ms)
    this.verifier = new StreamVerifier({ id_window_ms, from: 1, onFinding: () => undefined, onBegin: (beginning) => this.begin(beginning) })
  }

  event(event: Parameters<ArchiveVisitor['event']>[0]): void {
    this.subjects ??= subjectsFrom(event.subject)
    const recorded = new StoredRecord(event, this.subjects)
    this.verifier.add(recorded)
    // After it was decided about: a pass does not count against itself.
    this.open.apply(recorded.fact)
    if (++this.counts.events % PROGRESS_EVERY === 0) this.options.onProgress?.(this.counts.events)
  }

  erased(entry: ErasedDigest, pass?: PassKey): void {
    this.verifier.erased(entry, pass)
  }

  async segment(): Promise<void> {
    await this.options.onSegment?.()
  }

  /** What is damaged is for `verify` to say. */
  fault(): void {}

  private begin(beginning: FirstStep): void {
    if (!this.isAsked(beginning)) return
    const { counts, options } = this
    counts.decided++
    const result = whatIf(beginning, options.document, this.counting.for(beginning.step.key))
    if (result.kind !== 'otherwise') {
      counts[result.kind]++
      return
    }
    const { otherwise } = result
    counts.otherwise++
    const kind = otherwise.before === otherwise.after ? `${otherwise.before}, otherwise` : `${otherwise.before} → ${otherwise.after}`
    counts.kinds[kind] = (counts.kinds[kind] ?? 0) + 1
    options.onOtherwise(otherwise)
  }

  private isAsked({ asked }: FirstStep): boolean {
    const { session, since, until } = this.options
    const { time } = asked.fact
    if ((since !== undefined && time < since) || (until !== undefined && time > until)) return false
    if (session === undefined) return true
    const reading = asked.recorded.reading()
    return reading.ok && reading.value.session_id === session
  }
}

/** Over a saved archive. Throws ArchiveUnreadable. */
export async function whatIfArchive(source: ArchiveSource, options: WhatIfOptions): Promise<WhatIfCounts> {
  const run = new WhatIfRun(options)
  await walkArchive(source, run)
  return run.counts
}

/** Over an installation's archive, and its stream after it. */
export async function whatIfLive(bus: Bus, options: WhatIfOptions): Promise<WhatIfCounts> {
  const run = new WhatIfRun(options, bus.subjects)
  const manifest = await Manifest.open(bus)
  const { first, last } = await bus.bounds()
  // What is archived meanwhile is read once all the same: the rest begins after the last segment that was read.
  const { newest } = await walkArchive(liveArchive(manifest, await bus.objects(ARCHIVE_BUCKET)), run)
  await readRange(bus, { from: newest ? sequenceAfter(newest) : Math.max(1, first), up_to: last }, (stored) => run.event(eventOf(stored)))
  return run.counts
}
