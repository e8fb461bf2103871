import { type ArchiveSource, decodeIndex } from '@passover/archive'
import { ambiguousId, meantBy } from '@passover/operator'
import { keyText, type PassKey } from '@passover/schemas'

export interface PassIdFilter {
  /** Pass ids, or prefixes of them. */
  ids: readonly string[]
  /** Restricts the passes to this originator and this subagent. */
  from?: string | undefined
  to?: string | undefined
}

/** Resolves ids to passes of an archive, as `findPass` does for an installation: an exact match, else the only pass whose id has that prefix. */
export class PassIdResolver {
  readonly #by: PassIdFilter
  readonly #found = new Map<string, Map<string, PassKey>>()

  private constructor(by: PassIdFilter) {
    this.#by = by
    for (const id of by.ids) this.#found.set(id, new Map())
  }

  /** Reads the pass ids from the indexes before anything is shown. Throws ArchiveUnreadable, or Failure E042 if an id is ambiguous. */
  static async open(source: ArchiveSource, by: PassIdFilter): Promise<PassIdResolver> {
    const named = new PassIdResolver(by)
    if (by.ids.length === 0) return named
    for (const { index } of await source.entries()) {
      for (const key of keysIn(await source.object(index))) named.#see(key)
    }
    for (const id of by.ids) named.#only(id)
    return named
  }

  /** Number of passes that the ids name. */
  get size(): number {
    return new Set([...this.#found.keys()].map((id) => this.#only(id) ?? id)).size
  }

  /** True if one of the ids names the pass, which may be missing from the indexes. Throws Failure E042 if this makes an id ambiguous. */
  has(key: PassKey): boolean {
    this.#see(key)
    const text = keyText(key)
    return this.#by.ids.some((id) => key.id.startsWith(id) && this.#only(id) === text)
  }

  #see(key: PassKey): void {
    const { ids, from, to } = this.#by
    if ((from ?? key.originator) !== key.originator || (to ?? key.subagent) !== key.subagent) return
    for (const id of ids) if (key.id.startsWith(id)) this.#found.get(id)?.set(keyText(key), key)
  }

  #only(id: string): string | undefined {
    const meant = meantBy(id, [...(this.#found.get(id)?.values() ?? [])])
    if (meant.length > 1) throw ambiguousId(id, meant)
    return meant[0] && keyText(meant[0])
  }
}

/** Reads the passes in an index. Damage is ignored here, because `verify` reports it. */
function keysIn(index: Uint8Array | undefined): PassKey[] {
  try {
    return index ? decodeIndex(index).map(({ key }) => key) : []
  } catch {
    return []
  }
}
