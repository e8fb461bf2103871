import { type ArchivedEvent, type ArchiveSource, keyOfFact } from '@passover/archive'
import { EMPTY_JOURNAL, type JournalState, next } from '@passover/core'
import { type Fact, HEADER, keyText, type PassKey } from '@passover/schemas'
import { StoredRecord, subjectsFrom } from '../stored-messages/stored-record.js'
import { type ArchiveVisitor, walkArchive } from '../stored-messages/walk-archive.js'
import type { PlaybackEntry } from './playback.js'
import type { PassIdResolver } from './resolve-ids.js'

export interface ArchivedPassFilter {
  named: Pick<PassIdResolver, 'has'>
  session?: string | undefined
  id_window_ms: number
}

export interface ArchivedEntryHandler {
  /** Called with the entries of one segment, in order. Returns false to stop. */
  onEntries(entries: readonly PlaybackEntry[]): Promise<boolean>
  onProgress?: ((events: number) => void) | undefined
}

const PROGRESS_EVERY = 4_096

/**
 * Reads the entries of selected passes from an archive, segment by segment. Only one segment and the names of the passes are in memory. Throws
 * ArchiveUnreadable, or Failure E042 for an ambiguous id.
 */
export async function readArchivedPasses(
  source: ArchiveSource,
  filter: ArchivedPassFilter,
  handler: ArchivedEntryHandler,
): Promise<{ events: number; told: number }> {
  const visitor = new ArchivedPassReader(filter, handler)
  await walkArchive(source, visitor)
  return visitor.counts
}

class ArchivedPassReader implements ArchiveVisitor {
  readonly #filter: ArchivedPassFilter
  readonly #handler: ArchivedEntryHandler
  readonly counts = { events: 0, told: 0 }
  #entries: PlaybackEntry[] = []
  readonly #journals = new Map<string, JournalState>()
  #ended = false
  #subjects: ReturnType<typeof subjectsFrom> | undefined

  constructor(filter: ArchivedPassFilter, handler: ArchivedEntryHandler) {
    this.#filter = filter
    this.#handler = handler
  }

  event(event: ArchivedEvent): void {
    this.#subjects ??= subjectsFrom(event.subject)
    const recorded = new StoredRecord(event, this.#subjects)
    if (++this.counts.events % PROGRESS_EVERY === 0) this.#handler.onProgress?.(this.counts.events)
    const key = keyIn(recorded)
    if (key && this.#isWanted(recorded, key)) this.#entries.push(this.#entryOf(recorded, key))
  }

  erased(): void {
    this.counts.events++
  }

  /** Damage is ignored here, because `verify` reports it. */
  fault(): void {}

  async segment(): Promise<void> {
    const entries = this.#entries
    this.#entries = []
    this.counts.told += entries.length
    if (entries.length > 0 && !(await this.#handler.onEntries(entries))) this.#ended = true
  }

  stop(): boolean {
    return this.#ended
  }

  /** Selects a pass by id or session. Only its request and first step name the session, so a selected pass is remembered. */
  #isWanted(recorded: StoredRecord, key: PassKey): boolean {
    const { named, session } = this.#filter
    const text = keyText(key)
    if (this.#journals.has(text)) return true
    const is = named.has(key) || (session !== undefined && sessionIn(recorded) === session)
    if (is) this.#journals.set(text, EMPTY_JOURNAL)
    return is
  }

  #entryOf(recorded: StoredRecord, key: PassKey): PlaybackEntry {
    const { fact } = recorded
    const { sequence, time } = fact
    const at = { sequence, time, pass: key.id, originator: key.originator, subagent: key.subagent }
    switch (fact.type) {
      case 'step':
        return { ...at, kind: fact.kind, by: fact.by, ...(fact.attempt > 0 ? { attempt: fact.attempt } : {}), ...this.#stepOf(fact, key) }
      case 'decision':
        return { ...at, kind: 'decision', by: fact.person, detail: `${fact.item}${fact.verdict === undefined ? '' : ` ${fact.verdict}`}` }
      case 'event':
        return { ...at, kind: fact.kind, by: fact.sender, ...(fact.kind === 'applied' ? appliedDetail(recorded.body()) : {}) }
      default:
        return { ...at, kind: 'request', by: key.originator }
    }
  }

  #stepOf(step: Extract<Fact, { type: 'step' }>, key: PassKey): Pick<PlaybackEntry, 'detail' | 'ignored'> {
    const text = keyText(key)
    const { journal, ignored } = next(this.#journals.get(text) ?? EMPTY_JOURNAL, step, { id_window_ms: this.#filter.id_window_ms })
    this.#journals.set(text, journal)
    const detail = step.kind === 'return' ? (step.code ?? step.status) : undefined
    return { ...(detail === undefined ? {} : { detail }), ...(ignored === undefined ? {} : { ignored }) }
  }
}

/** Says how many changes an `applied` event applied or undid, in the words of the audit service. */
function appliedDetail(body: unknown): Pick<PlaybackEntry, 'detail'> {
  const { applied, undone } = (body ?? {}) as { applied?: unknown; undone?: unknown }
  return Array.isArray(applied) ? { detail: `${applied.length} ${undone === true ? 'undone' : 'applied'}` } : {}
}

/** Returns the pass that a record belongs to. A request may have its id only in the body. */
function keyIn(recorded: StoredRecord): PassKey | undefined {
  const { fact } = recorded
  if (fact.type !== 'request' || fact.id !== undefined) return keyOfFact(fact)
  const reading = recorded.reading()
  return reading.ok ? { originator: fact.originator, subagent: fact.subagent, id: reading.value.request.id } : undefined
}

function sessionIn(recorded: StoredRecord): string | undefined {
  const { fact } = recorded
  if (fact.type === 'request') {
    const reading = recorded.reading()
    return reading.ok ? reading.value.session_id : undefined
  }
  if (fact.type !== 'step' || (fact.kind !== 'work' && fact.kind !== 'held')) return undefined
  const { control } = (recorded.body() ?? {}) as { control?: { session_id?: unknown } }
  return typeof control?.session_id === 'string' ? control.session_id : recorded.header(HEADER.session)
}
