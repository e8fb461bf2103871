import type { Archive, Manifest } from '@passover/archive'
import { keyText } from '@passover/schemas'
import { LastSegmentTable } from './last-segment-table.js'

/**
 * Tracks which passes that began earlier are named in later segments: a pass is deleted only with the segment of its last message that counts. Read
 * from the indexes of all sealed segments after the deleter's own. A pass within a single segment costs nothing.
 */
export class LaterReferences {
  readonly #deps: { archive: Pick<Archive, 'passesIn'>; manifest: Pick<Manifest, 'entry'> }
  readonly #last = new LastSegmentTable()
  #read: number
  /** All passes named in the next segment. Most passes that a segment boundary cuts continue there; their first step may be there, too. */
  #next: { k: number; texts: ReadonlySet<string> } | undefined
  #begun: { k: number; texts: Promise<ReadonlySet<string> | undefined> } | undefined

  constructor(deps: { archive: Pick<Archive, 'passesIn'>; manifest: Pick<Manifest, 'entry'> }, from: number) {
    this.#deps = deps
    this.#read = from
  }

  get size(): number {
    return this.#last.size
  }

  /** Reads the indexes that were sealed since the last call; at a start, thousands. Returns false if `wanted` resolves to false. */
  async refresh(wanted: () => Promise<boolean>): Promise<boolean> {
    while (await this.#deps.manifest.entry(this.#read)) {
      if (!(await wanted())) return false
      for (const { key, begins } of await this.#deps.archive.passesIn(this.#read)) if (!begins) this.#last.set(keyText(key), this.#read)
      this.#read++
    }
    return true
  }

  /** Loads the passes of segment k + 1 before segment k is processed, and starts to load those of k + 2. */
  async prefetch(k: number): Promise<void> {
    const begun = this.#begun
    this.#begun = undefined
    const texts = (begun?.k === k + 1 ? await begun.texts : undefined) ?? (await this.#textsOf(k + 1))
    this.#next = { k: k + 1, texts: texts ?? new Set() }
    const next = this.#textsOf(k + 2)
    // Prevents an unhandled rejection. The error is thrown when the result is awaited.
    next.catch(() => undefined)
    this.#begun = { k: k + 2, texts: next }
  }

  /** True if a segment after k names the pass. Finds passes that begin after k only in segment k + 1. */
  isReferencedAfter(text: string, k: number): boolean {
    return (this.#last.get(text) ?? -1) > k || (this.#next?.k === k + 1 && this.#next.texts.has(text))
  }

  /** Returns the passes of a segment, or `undefined` if it is not sealed yet. */
  async #textsOf(k: number): Promise<ReadonlySet<string> | undefined> {
    if (!(await this.#deps.manifest.entry(k))) return undefined
    return new Set((await this.#deps.archive.passesIn(k)).map(({ key }) => keyText(key)))
  }

  /** Forgets passes whose last segment was k, after k is processed. */
  forget(texts: Iterable<string>, k: number): void {
    for (const text of texts) if (this.#last.get(text) === k) this.#last.delete(text)
  }
}
