import { type ArchiveSource, decodeIndex } from '@passover/archive'
import { ambiguousId } from '@passover/operator'
import { keyText, type PassKey } from '@passover/schemas'

export interface PassIdFilter {
  /** Ids, or the beginnings of them. */
  ids: readonly string[]
  /** Of this originator, and of this subagent. */
  from?: string | undefined
  to?: string | undefined
}

/** Which pass of an archive each id names, as `findPass` says of an installation: the whole id, else the one pass that begins so. */
export class PassIdResolver {
  private readonly found = new Map<string, Map<string, PassKey>>()

  private constructor(private readonly by: PassIdFilter) {
    for (const id of by.ids) this.found.set(id, new Map())
  }

  /** By the indexes alone, before anything is told. Throws ArchiveUnreadable; Failure E042: one of them names several. */
  static async open(source: ArchiveSource, by: PassIdFilter): Promise<PassIdResolver> {
    const named = new PassIdResolver(by)
    if (by.ids.length === 0) return named
    for (const { index } of await source.entries()) {
      for (const key of keysIn(await source.object(index))) named.see(key)
    }
    for (const id of by.ids) named.only(id)
    return named
  }

  /** How many passes are named. */
  get size(): number {
    return new Set([...this.found.keys()].map((id) => this.only(id) ?? id)).size
  }

  /** Whether one of the ids names it: what no index speaks of is met here first. Failure E042: it is a second one. */
  has(key: PassKey): boolean {
    this.see(key)
    const text = keyText(key)
    return this.by.ids.some((id) => key.id.startsWith(id) && this.only(id) === text)
  }

  private see(key: PassKey): void {
    const { ids, from, to } = this.by
    if ((from ?? key.originator) !== key.originator || (to ?? key.subagent) !== key.subagent) return
    for (const id of ids) if (key.id.startsWith(id)) this.found.get(id)?.set(keyText(key), key)
  }

  private only(id: string): string | undefined {
    const all = [...(this.found.get(id) ?? [])]
    const exact = all.filter(([, key]) => key.id === id)
    const close = exact.length > 0 ? exact : all
    if (close.length > 1)
      throw ambiguousId(
        id,
        close.map(([, key]) => key),
      )
    return close[0]?.[0]
  }
}

/** What is damaged is for `verify` to say. */
function keysIn(index: Uint8Array | undefined): PassKey[] {
  try {
    return index ? decodeIndex(index).map(({ key }) => key) : []
  } catch {
    return []
  }
}
