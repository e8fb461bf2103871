import type { Archive, Manifest } from '@passover/archive'
import { keyText } from '@passover/schemas'
import { LastSegmentTable } from './last-segment-table.js'

/**
 * Which passes that began earlier are spoken of in later segments: a pass goes only with the segment that holds the last message that counts. Read
 * from the indexes of all sealed segments after the deleter's own; a pass that lives within one segment costs nothing.
 */
export class LaterReferences {
  private readonly last = new LastSegmentTable()
  private read: number
  /** Every pass of one segment: most that are cut by a segment's end go on in the next one, and may begin there. */
  private next: { k: number; texts: ReadonlySet<string> } | undefined
  private begun: { k: number; texts: Promise<ReadonlySet<string> | undefined> } | undefined

  constructor(
    private readonly deps: { archive: Pick<Archive, 'passesIn'>; manifest: Pick<Manifest, 'entry'> },
    from: number,
  ) {
    this.read = from
  }

  get size(): number {
    return this.last.size
  }

  /** Reads what was sealed since: at a start some thousand indexes. False: it is not `wanted` any more. */
  async refresh(wanted: () => Promise<boolean>): Promise<boolean> {
    while (await this.deps.manifest.entry(this.read)) {
      if (!(await wanted())) return false
      for (const { key, begins } of await this.deps.archive.passesIn(this.read)) if (!begins) this.last.set(keyText(key), this.read)
      this.read++
    }
    return true
  }

  /** Before segment k is gone through; what the one after it will need is read meanwhile. */
  async prefetch(k: number): Promise<void> {
    const { begun } = this
    this.begun = undefined
    const texts = (begun?.k === k + 1 ? await begun.texts : undefined) ?? (await this.textsOf(k + 1))
    this.next = { k: k + 1, texts: texts ?? new Set() }
    const next = this.textsOf(k + 2)
    // Whoever needs it is told.
    next.catch(() => undefined)
    this.begun = { k: k + 2, texts: next }
  }

  /** Whether a segment after k speaks of it, as far as it began before, or goes on in the next one. */
  isReferencedAfter(text: string, k: number): boolean {
    return (this.last.get(text) ?? -1) > k || (this.next?.k === k + 1 && this.next.texts.has(text))
  }

  /** Undefined: it is not sealed yet. */
  private async textsOf(k: number): Promise<ReadonlySet<string> | undefined> {
    if (!(await this.deps.manifest.entry(k))) return undefined
    return new Set((await this.deps.archive.passesIn(k)).map(({ key }) => keyText(key)))
  }

  /** Segment k is done with. */
  forget(texts: Iterable<string>, k: number): void {
    for (const text of texts) if (this.last.get(text) === k) this.last.delete(text)
  }
}
