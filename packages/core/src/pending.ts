import type { PassKey } from '@passover/schemas'
import type { Asked } from './open-pass.js'
import { PassingMap } from './passing-map.js'

/** Requests that no first step has answered yet: by sequence, and by the pass they ask for. */
export class Pending {
  readonly #bySequence = new PassingMap<number, Asked>()
  /** Mostly one request a pass: a set only where there are several. */
  readonly #byName = new PassingMap<string, Asked | Set<Asked>>()

  get size(): number {
    return this.#bySequence.size
  }

  get(sequence: number): Asked | undefined {
    return this.#bySequence.get(sequence)
  }

  values(): Iterable<Asked> {
    return this.#bySequence.values()
  }

  named(text: string): Asked[] {
    const found = this.#byName.get(text)
    if (!found) return []
    return found instanceof Set ? [...found] : [found]
  }

  add(asked: Asked): void {
    this.#bySequence.set(asked.fact.sequence, asked)
    if (asked.text !== undefined) this.#index(asked, asked.text)
  }

  /** Gives a request the name of the pass that it asks for. */
  name(asked: Asked, key: PassKey, text: string): void {
    this.#unindex(asked)
    asked.key = key
    asked.text = text
    this.#index(asked, text)
  }

  remove(sequence: number): Asked | undefined {
    const asked = this.#bySequence.take(sequence)
    if (asked) this.#unindex(asked)
    return asked
  }

  #index(asked: Asked, text: string): void {
    const present = this.#byName.get(text)
    if (present instanceof Set) present.add(asked)
    else this.#byName.set(text, present ? new Set([present, asked]) : asked)
  }

  #unindex(asked: Asked): void {
    if (asked.text === undefined) return
    const present = this.#byName.get(asked.text)
    if (present instanceof Set) present.delete(asked)
    if (present === asked || (present instanceof Set && present.size === 0)) this.#byName.delete(asked.text)
  }
}
