import { SegmentDamaged } from '@passover/archive'
import { ObjectError } from '@passover/bus'

/** Segments that are due, and that could not be read when they were looked at last: one keeps no other, and is told until it can be read. */
export class DamagedSegments {
  private readonly errors = new Map<number, Error>()

  has(k: number): boolean {
    return this.errors.has(k)
  }

  /** Undefined: what is stored of a segment, or of what it speaks of, cannot be read. */
  async unless<T>(k: number, does: () => Promise<T>): Promise<T | undefined> {
    try {
      const done = await does()
      this.errors.delete(k)
      return done
    } catch (error) {
      if (!(error instanceof SegmentDamaged || error instanceof ObjectError)) throw error
      this.errors.set(k, error)
      return undefined
    }
  }

  /** What is not due any more is nobody's trouble. */
  keep(due: readonly { k: number }[]): void {
    for (const k of this.errors.keys()) if (!due.some((one) => one.k === k)) this.errors.delete(k)
  }

  /** Throws where there is one. */
  tell(): void {
    for (const error of this.errors.values()) throw error
  }
}
