import { requestNamed } from '@passover/core'
import type { PassKey } from '@passover/schemas'
import { PassMemory as Memory, type PassMemory } from '../pass/pass-memory.js'
import { noteKey } from '../pass/unanswered-requests.js'
import type { Projector } from '../projection/projector.js'
import { isBefore, type ListPosition } from '../records/list-cursor.js'
import type { IndexFilter } from './index/index-filter.js'
import type { OrderPosition } from './index/pass-order.js'
import { TopN } from './index/top-n.js'
import type { MemoryListing } from './memory-listing.js'

/** A pass whose record is missing or being rewritten, so that memory knows more than the bucket. */
export interface UnrecordedPass extends ListPosition {
  memory: PassMemory
}

export interface UnrecordedDeps {
  projector: Pick<Projector, 'young' | 'notes' | 'unwritten'>
  listing: Pick<MemoryListing, 'unrecorded'>
}

/** Sorts after every `keyText`. */
const AFTER_ALL = '\uffff'

/**
 * Returns the newest `count` passes after a position that may match: open passes without a record, passes whose record is being written, and requests
 * that wait for an answer.
 */
export function newestUnrecorded(
  { projector, listing }: UnrecordedDeps,
  filter: IndexFilter,
  { after, count }: { after: ListPosition | undefined; count: number },
): UnrecordedPass[] {
  const kept = new TopN<UnrecordedPass>(count)
  const offer = (pending: UnrecordedPass) => {
    if (kept.wants(pending.created_at, pending.sequence)) kept.offer(pending)
  }
  for (const memory of projector.unwritten()) {
    const position = positionOf(memory)
    if ((!after || isBefore(after, position)) && mayMatch(memory.key, position, filter)) offer({ ...position, memory })
  }
  for (const { text, created_at, sequence } of unrecorded(listing, filter, { after, count })) {
    const note = projector.notes.find(text)
    const key = note && noteKey(note)
    const memory = projector.young.get(text)?.memory ?? (key && Memory.of(key, note))
    if (memory) offer({ created_at, sequence, memory })
  }
  return kept.sorted()
}

/** Returns the open passes and requests among them. None match a filter for an error code, because open passes have no error. */
function unrecorded(
  listing: UnrecordedDeps['listing'],
  filter: IndexFilter,
  page: { after: ListPosition | undefined; count: number },
): OrderPosition[] {
  const { from = Number.NEGATIVE_INFINITY, to = Number.POSITIVE_INFINITY } = filter
  if (filter.code !== undefined) return []
  const beyond = page.after && { ...page.after, text: AFTER_ALL }
  const after =
    to <= (beyond?.created_at ?? Number.POSITIVE_INFINITY) && Number.isFinite(to)
      ? { created_at: to, sequence: 0, text: AFTER_ALL }
      : beyond
  return listing.unrecorded.newest(filter, after, page.count).filter(({ created_at }) => created_at >= from)
}

function mayMatch(key: PassKey, { created_at }: ListPosition, filter: IndexFilter): boolean {
  const { originator = key.originator, subagent = key.subagent, party } = filter
  if (originator !== key.originator || subagent !== key.subagent) return false
  if (party !== undefined && party !== key.originator && party !== key.subagent) return false
  return created_at >= (filter.from ?? 0) && created_at < (filter.to ?? Number.POSITIVE_INFINITY)
}

/** Returns the sequence of the request that the pass's steps name, or of its first message. */
export function firstSequenceOf(memory: PassMemory | undefined): number | undefined {
  return memory && positionOf(memory).sequence
}

/** Returns the position that the pass's record will have. */
export function positionOf(memory: PassMemory): ListPosition {
  for (const { fact } of memory.noted) {
    const named = fact.type === 'step' ? requestNamed(fact) : undefined
    if (named) return { created_at: named.time ?? memory.request?.time ?? fact.time, sequence: named.sequence }
  }
  return { created_at: memory.request?.time ?? memory.begun, sequence: memory.request?.sequence ?? memory.first }
}
