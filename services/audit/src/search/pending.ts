import { requestNamed } from '@passover/core'
import { keyText, type PassKey } from '@passover/schemas'
import { PassMemory as Memory, type PassMemory } from '../pass-memory.js'
import type { Projector } from '../project.js'
import { noteKey } from '../request-notes.js'
import type { IndexFilter } from './index-filter.js'
import { Newest } from './newest.js'
import { isBefore, type Position } from './position.js'

/** A pass whose record is not written yet, or is written anew: memory knows more. */
export interface Pending extends Position {
  memory: PassMemory
}

/** The newest `count` after a position that may match: open passes, those that are just being written, and requests that wait for an answer. */
export function newestPending(projector: Projector, filter: IndexFilter, page: { after: Position | undefined; count: number }): Pending[] {
  const kept = new Newest<Pending>(page.count)
  const offer = (memory: PassMemory, position: Position) => {
    if (page.after && !isBefore(page.after, position)) return
    if (mayMatch(memory.key, position, filter) && kept.wants(position.created_at, position.sequence)) kept.offer({ ...position, memory })
  }
  for (const memory of projector.unrecorded()) offer(memory, positionOf(memory))
  for (const note of projector.notes.values()) {
    const key = noteKey(note)
    const known = key && projector.find(keyText(key)) !== undefined
    if (key && !known) offer(Memory.of(key, note), { created_at: note.time, sequence: note.sequence })
  }
  return kept.sorted()
}

function mayMatch(key: PassKey, { created_at }: Position, filter: IndexFilter): boolean {
  const { originator = key.originator, subagent = key.subagent, party } = filter
  if (originator !== key.originator || subagent !== key.subagent) return false
  if (party !== undefined && party !== key.originator && party !== key.subagent) return false
  return created_at >= (filter.from ?? 0) && created_at < (filter.to ?? Number.POSITIVE_INFINITY)
}

/** Sequence of the request that it answers, as its steps say, else of its first message. */
export function beginOf(memory: PassMemory | undefined): number | undefined {
  return memory && positionOf(memory).sequence
}

/** As its record will have it. */
function positionOf(memory: PassMemory): Position {
  for (const { fact } of memory.noted) {
    const named = fact.type === 'step' ? requestNamed(fact) : undefined
    if (named) return { created_at: named.time ?? memory.request?.time ?? fact.time, sequence: named.sequence }
  }
  return { created_at: memory.request?.time ?? memory.begun, sequence: memory.request?.sequence ?? memory.first }
}
