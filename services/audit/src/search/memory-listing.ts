import { passStatus, requestTime } from '@passover/core'
import { keyText, type PassKey, type PassRow } from '@passover/schemas'
import type { PassMemory, RequestNote } from '../pass/pass-memory.js'
import { noteKey } from '../pass/unanswered-requests.js'
import type { Projector } from '../projection/projector.js'
import type { RowCache } from '../records/row-cache.js'
import type { OpenCounts, PassIndex } from './index/pass-index.js'
import { type ListedPass, OPEN, PassOrder } from './index/pass-order.js'
import { positionOf } from './unrecorded-passes.js'

/** Number of changes that are applied together. Most passes begin and end within one such batch. */
const MAX_PENDING_CHANGES = 512

export interface MemoryListingDeps {
  projector: () => Pick<Projector, 'young' | 'old' | 'notes' | 'find'>
  rows: () => Pick<RowCache, 'get'>
  index: () => Pick<PassIndex, 'cover' | 'has'>
}

/**
 * Sorted lists of the passes in memory, so that a page of `list` or `query` costs as much as its size, not as the number of open passes. Projector
 * and rows report which passes have changed. The changes are applied when there are many, or when a list is read.
 */
export class MemoryListing {
  readonly #deps: MemoryListingDeps
  readonly #listed = new PassOrder()
  readonly #recordless = new PassOrder()
  readonly #changed = new Set<string>()

  constructor(deps: MemoryListingDeps) {
    this.#deps = deps
  }

  /** Marks the pass with this `keyText` as changed. */
  note(text: string): void {
    this.#changed.add(text)
    if (this.#changed.size >= MAX_PENDING_CHANGES) this.#settle()
  }

  /** All passes in memory, each once: open, with a row, or only requested. */
  get passes(): PassOrder {
    this.#settle()
    return this.#listed
  }

  /** Passes without a record: those that began a moment ago, and those that were only requested. */
  get unrecorded(): PassOrder {
    this.#settle()
    return this.#recordless
  }

  has(key: PassKey): boolean {
    return this.#listed.has(keyText(key))
  }

  /** Returns the numbers of open passes of an agent in memory. */
  countsOf(agent: string): OpenCounts {
    const { passes } = this
    return {
      open: passes.count('subagent', agent, 'waiting_for_return'),
      waiting: passes.count('subagent', agent, 'requested') + passes.count('subagent', agent, 'held'),
      originated: passes.count('originator', agent),
    }
  }

  #settle(): void {
    if (this.#changed.size === 0) return
    const changed = [...this.#changed]
    this.#changed.clear()
    for (const text of changed) this.#refresh(text)
  }

  #refresh(text: string): void {
    const projector = this.#deps.projector()
    const young = projector.young.get(text)?.memory
    const row = this.#deps.rows().get(text)
    const memory = memoryOf(projector, text, row)
    const asked = row || memory || projector.find(text) ? undefined : this.#requested(projector, text)
    this.#keep(text, memory ? ofMemory(text, memory) : row ? ofRow(text, row) : asked)
    const unrecorded = young ? { ...ofMemory(text, young), ...positionOf(young) } : undefined
    const pending = unrecorded ?? asked
    if (pending) this.#recordless.put(pending)
    else this.#recordless.delete(text)
  }

  /** Returns the waiting request of a pass. A request that repeats a recorded pass waits too, until it is swept, but is no pass of its own. */
  #requested(projector: Pick<Projector, 'notes'>, text: string): ListedPass | undefined {
    const note = projector.notes.find(text)
    const asked = note && ofNote(text, note)
    return asked && !this.#deps.index().has(asked.key) ? asked : undefined
  }

  #keep(text: string, ordered: ListedPass | undefined): void {
    const known = this.#listed.get(text)
    if (ordered) this.#listed.put(ordered)
    else this.#listed.delete(text)
    // Passes in memory are counted here, and the others by the index.
    if (ordered && !known) this.#deps.index().cover(ordered.key, true)
    else if (known && !ordered && OPEN.has(known.status)) this.#deps.index().cover(known.key, false)
  }
}

/** Returns the state of a pass that is newer than its row: the pass is open, or has ended and its record is still being written. */
export function memoryOf(
  projector: Pick<Projector, 'young' | 'old' | 'find'>,
  text: string,
  row: PassRow | undefined,
): PassMemory | undefined {
  const open = (projector.young.get(text) ?? projector.old.get(text))?.memory
  if (open || !row) return open
  const ended = projector.find(text)
  return ended && ended.last > row.last_sequence ? ended : undefined
}

function ofMemory(text: string, memory: PassMemory): ListedPass {
  const first = memory.noted[0]?.fact
  const framed = memory.step('work') ?? memory.step('held')
  const session = framed?.framed?.frame.session_id
  const parent = framed?.fact.type === 'step' ? framed.fact.parent : undefined
  return {
    text,
    key: memory.key,
    status: passStatus(memory.journal),
    created_at: (first?.type === 'step' ? requestTime(first) : undefined) ?? memory.begun,
    sequence: memory.last,
    session_id: typeof session === 'string' ? session : undefined,
    parent: parent && keyText(parent),
    unread: false,
  }
}

function ofRow(text: string, row: PassRow): ListedPass {
  const { originator, subagent, id, status, session_id, parent, created_at, last_sequence } = row
  return { text, key: { originator, subagent, id }, status, created_at, sequence: last_sequence, session_id, parent, unread: false }
}

function ofNote(text: string, note: RequestNote): ListedPass | undefined {
  const key = noteKey(note)
  const { time: created_at, sequence } = note
  return key && { text, key, status: 'requested', created_at, sequence, session_id: undefined, parent: undefined, unread: true }
}
