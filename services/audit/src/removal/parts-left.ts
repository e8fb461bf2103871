import type { Archive } from '@passover/archive'
import type { Bus } from '@passover/bus'

export interface PartsDeps {
  bus: Bus
  archive: Pick<Archive, 'finder'>
  /** Whether a message that is in no sealed segment yet, and not erased, refers to a part. */
  refersTo: (part: string, erased?: { has(sequence: number): boolean }) => boolean
  /** Settles when everything up to there was read. */
  untilRead: (sequence: number) => Promise<void>
}

/**
 * Deletes the large parts, `<owner>/<token>`, that nothing which is kept refers to. Gives how many. An agent that stores the very same bytes
 * in that moment may find its part gone: its pass then fails with "missing", and is asked again.
 */
export async function removeParts(deps: PartsDeps, parts: Iterable<string>, erased?: { has(sequence: number): boolean }): Promise<number> {
  const named = [...parts]
  if (named.length === 0) return 0
  await deps.untilRead((await deps.bus.bounds()).last)
  let removed = 0
  for (const name of named) {
    if (deps.refersTo(name, erased) || (await deps.archive.finder.speaksOf(name)) !== false) continue
    const slash = name.indexOf('/')
    await deps.bus.parts.removeToken(name.slice(0, slash), name.slice(slash + 1))
    removed++
  }
  return removed
}
