/**
 * Tracks which writes to the bucket this process knows. Revisions increase by one, so a gap is a write of another process: a replica or a rebuild.
 */
export class KnownRevisions {
  /** Revision up to which every write is known. */
  reached = 0
  readonly #ahead = new Set<number>()

  see(revision: number): void {
    if (revision <= this.reached) return
    this.#ahead.add(revision)
    this.#close()
  }

  /** Marks all writes up to a revision as read. */
  reach(revision: number): void {
    if (revision <= this.reached) return
    this.reached = revision
    for (const known of this.#ahead) if (known <= revision) this.#ahead.delete(known)
    this.#close()
  }

  knows(revision: number): boolean {
    return revision <= this.reached || this.#ahead.has(revision)
  }

  #close(): void {
    while (this.#ahead.delete(this.reached + 1)) this.reached++
  }
}
