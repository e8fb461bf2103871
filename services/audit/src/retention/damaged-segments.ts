import { SegmentDamaged } from '@passover/archive'
import { ObjectError } from '@passover/bus'

/** Due segments that could not be read at the last attempt. They do not block other segments, and are reported until they can be read. */
export class DamagedSegments {
  readonly #errors = new Map<number, Error>()

  has(k: number): boolean {
    return this.#errors.has(k)
  }

  /** Runs `does` for a segment; returns `undefined` if stored data of the segment, or of something it refers to, cannot be read. */
  async unless<T>(k: number, does: () => Promise<T>): Promise<T | undefined> {
    try {
      const done = await does()
      this.#errors.delete(k)
      return done
    } catch (error) {
      if (!(error instanceof SegmentDamaged || error instanceof ObjectError)) throw error
      this.#errors.set(k, error)
      return undefined
    }
  }

  /** Forgets segments that are no longer due. */
  keep(due: readonly { k: number }[]): void {
    for (const k of this.#errors.keys()) if (!due.some((one) => one.k === k)) this.#errors.delete(k)
  }

  /** Throws the error of the first damaged segment, if there is one. */
  tell(): void {
    for (const error of this.#errors.values()) throw error
  }
}
