import type { Archive } from '@passover/archive'
import type { Bus } from '@passover/bus'

export interface OrphanPartsDeps {
  bus: Bus
  archive: Pick<Archive, 'keepsPart'>
  /** True if a message that is neither in a sealed segment nor erased refers to the part. */
  refersTo: (part: string, erased?: { has(sequence: number): boolean }) => boolean
  /** Resolves once every message up to `sequence` is read. */
  untilRead: (sequence: number) => Promise<void>
}

/**
 * Deletes those of the given large parts (`<owner>/<token>`) that no other pass of their owner needs. Returns how many were deleted. If an agent
 * stores identical bytes at the same moment, its part may be deleted as well: its pass then fails with "missing" and must be requested again.
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
    if ((await archive.keepsPart(name, bus.subjects)) !== false) continue
    const slash = name.indexOf('/')
    await bus.parts.removeToken(name.slice(0, slash), name.slice(slash + 1))
    removed++
  }
  return removed
}
