import { type Archive, ownedParts } from '@passover/archive'
import type { Bus } from '@passover/bus'

export interface OrphanPartsDeps {
  bus: Bus
  archive: Pick<Archive, 'keepsPart'>
  /** Whether a message that is in no sealed segment yet, and not erased, keeps a part. */
  refersTo: (part: string, erased?: { has(sequence: number): boolean }) => boolean
  /** Settles when everything up to there was read. */
  untilRead: (sequence: number) => Promise<void>
}

/**
 * Deletes the large parts, `<owner>/<token>`, that no other pass of their owner needs, and returns how many. An agent that stores the very same bytes
 * in that moment may find its part gone: its pass then fails with "missing", and is asked again.
 */
export async function removeOrphanParts(
  deps: OrphanPartsDeps,
  parts: Iterable<string>,
  erased?: { has(sequence: number): boolean },
): Promise<number> {
  const named = [...parts]
  if (named.length === 0) return 0
  const { bus, archive, refersTo, untilRead } = deps
  await untilRead((await bus.bounds()).last)
  let removed = 0
  for (const name of named) {
    if (refersTo(name, erased)) continue
    if ((await archive.keepsPart(name, (stored) => ownedParts(stored, bus.subjects.toFact(stored)))) !== false) continue
    const slash = name.indexOf('/')
    await bus.parts.removeToken(name.slice(0, slash), name.slice(slash + 1))
    removed++
  }
  return removed
}
