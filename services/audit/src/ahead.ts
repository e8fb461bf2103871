import type { Archive, Manifest } from '@passover/archive'
import { keyText } from '@passover/schemas'

/**
 * Which passes that began earlier are spoken of in later segments: a pass goes only with the segment that holds its youngest message. Read
 * from the indexes of all sealed segments after the deleter's own; a pass that lives within one segment costs nothing.
 */
export class Ahead {
  private readonly last = new Map<string, number>()
  private read: number
  /** Every pass of one segment: most that are cut by a segment's end go on in the next one, and may begin there. */
  private next: { k: number; texts: ReadonlySet<string> } | undefined

  constructor(
    private readonly deps: { archive: Pick<Archive, 'passesIn'>; manifest: Pick<Manifest, 'entry'> },
    from: number,
  ) {
    this.read = from
  }

  get size(): number {
    return this.last.size
  }

  /** Reads what was sealed since. */
  async look(): Promise<void> {
    while (await this.deps.manifest.entry(this.read)) {
      for (const { key, begins } of await this.deps.archive.passesIn(this.read)) if (!begins) this.last.set(keyText(key), this.read)
      this.read++
    }
  }

  /** Before segment k is gone through. */
  async beside(k: number): Promise<void> {
    this.next = { k: k + 1, texts: new Set((await this.deps.archive.passesIn(k + 1)).map(({ key }) => keyText(key))) }
  }

  /** Whether a segment after k speaks of it, as far as it began before, or goes on in the next one. */
  after(text: string, k: number): boolean {
    return (this.last.get(text) ?? -1) > k || (this.next?.k === k + 1 && this.next.texts.has(text))
  }

  /** Segment k is done with. */
  forget(texts: Iterable<string>, k: number): void {
    for (const text of texts) if (this.last.get(text) === k) this.last.delete(text)
  }
}
