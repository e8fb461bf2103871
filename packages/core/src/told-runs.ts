import type { SegmentRun } from '@passover/schemas'

type Run = Pick<SegmentRun, 'from' | 'to' | 'chain_before' | 'chain_after'>

/** Segments of which something was told. What goes on where the last ended, as it mostly does, is one run with it. */
export class ToldRuns {
  private readonly runs: Run[] = []

  add({ from, to, chain_before, chain_after }: Run): void {
    const last = this.runs.at(-1)
    if (last && from === last.to + 1 && chain_before === last.chain_after) Object.assign(last, { to, chain_after })
    else this.runs.push({ from, to, chain_before, chain_after })
  }

  /** The last in which a segment was told. */
  of(k: number): Readonly<Run> | undefined {
    return this.runs.findLast(({ from, to }) => from <= k && k <= to)
  }
}
