import { keyText } from '@passover/schemas'
import type { RetentionState, Waiting } from './retention-state.js'

/** What stands in memory; of further segments only how many wait there, and they are read again by turns. */
const MOST_KEPT = 50_000
const READ_A_LOOK = 32

interface Counted {
  passes: number
  letters: number
  advisories: number
  /** Undefined: it is in the bucket alone. */
  kept: Waiting | undefined
}

/** What has to wait in segments that are done with otherwise, by segment: it stands in the bucket, and as much of it as there is room in memory. */
export class LeftBehind {
  private readonly segments = new Map<number, Counted>()
  private kept = 0
  /** The segment before which those that are not in memory are read next. */
  private turn = Number.POSITIVE_INFINITY

  constructor(
    private readonly state: Pick<RetentionState, 'left' | 'leftIn' | 'leave'>,
    private readonly most = MOST_KEPT,
  ) {}

  /** Passes and advisories. */
  get size(): number {
    let size = 0
    for (const { passes, advisories } of this.segments.values()) size += passes + advisories
    return size
  }

  /** What another process left behind. */
  async load(): Promise<void> {
    this.segments.clear()
    this.kept = 0
    for await (const [k, waiting] of this.state.left()) this.note(k, waiting)
  }

  async put(k: number, waiting: Waiting): Promise<void> {
    await this.state.leave(k, waiting)
    this.note(k, waiting)
  }

  /** Something younger of these passes was stored, and decides. Where it is not in memory it is found out when it is looked at. */
  async strike(texts: ReadonlySet<string>): Promise<void> {
    for (const [k, { kept }] of [...this.segments]) {
      const still = kept?.passes.filter(({ key }) => !texts.has(keyText(key)))
      if (kept && still && still.length < kept.passes.length) await this.put(k, { passes: still, advisories: kept.advisories })
    }
  }

  /** Segments to be looked at again, newest first, with how many dead letters wait in them and in newer ones; of those that are not in memory a few by turns. */
  async *look(): AsyncGenerator<{ k: number; waiting: Waiting; letters: number }> {
    let letters = 0
    const read = this.turns()
    for (const [k, counted] of this.inOrder()) {
      letters += counted.letters
      const waiting = counted.kept ?? (read.has(k) ? await this.state.leftIn(k) : undefined)
      if (waiting) yield { k, waiting, letters }
    }
  }

  private inOrder(): [number, Counted][] {
    return [...this.segments].sort(([a], [b]) => b - a)
  }

  private turns(): ReadonlySet<number> {
    const stored = this.inOrder().flatMap(([k, { kept }]) => (kept ? [] : [k]))
    const next = stored.filter((k) => k < this.turn).slice(0, READ_A_LOOK)
    // From the newest again.
    const turn = next.length > 0 ? next : stored.slice(0, READ_A_LOOK)
    this.turn = turn.at(-1) ?? Number.POSITIVE_INFINITY
    return new Set(turn)
  }

  private note(k: number, waiting: Waiting): void {
    const { passes, advisories } = waiting
    this.kept -= sizeOf(this.segments.get(k)?.kept)
    this.segments.delete(k)
    const size = sizeOf(waiting)
    if (size === 0) return
    const isKept = this.kept + size <= this.most
    if (isKept) this.kept += size
    const letters = passes.filter(({ why }) => why === 'dead_letter').length
    this.segments.set(k, { passes: passes.length, letters, advisories: advisories.length, kept: isKept ? waiting : undefined })
  }
}

function sizeOf(waiting: Waiting | undefined): number {
  return waiting ? waiting.passes.length + waiting.advisories.length : 0
}
