/**
 * Which writes of the bucket this process knows of. Revisions count up by one, so a gap is a write of another process: of a replica, or of a rebuild.
 */
export class KnownRevisions {
  /** Every write up to here is known. */
  reached = 0
  private readonly ahead = new Set<number>()

  see(revision: number): void {
    if (revision <= this.reached) return
    this.ahead.add(revision)
    this.close()
  }

  /** All writes up to there were read. */
  reach(revision: number): void {
    if (revision <= this.reached) return
    this.reached = revision
    for (const known of this.ahead) if (known <= revision) this.ahead.delete(known)
    this.close()
  }

  knows(revision: number): boolean {
    return revision <= this.reached || this.ahead.has(revision)
  }

  private close(): void {
    while (this.ahead.delete(this.reached + 1)) this.reached++
  }
}
