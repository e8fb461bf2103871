import { keyText, type PassKey } from '@passover/schemas'
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
    this.#index(asked, nameOf(asked))
  }

  /** Whether a request before this one, of the same two agents, asks for this pass, or may: its headers name none. */
  asksEarlier(key: PassKey, sequence: number): boolean {
    return [keyText(key), pairOf(key)].some((text) => this.named(text).some(({ fact }) => fact.sequence < sequence))
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
    const text = nameOf(asked)
    const present = this.#byName.get(text)
    if (present instanceof Set) present.delete(asked)
    if (present === asked || (present instanceof Set && present.size === 0)) this.#byName.delete(text)
  }
}

/** The pass that a request asks for; while that is not known, its two agents. */
function nameOf({ text, fact }: Asked): string {
  return text ?? pairOf(fact)
}

function pairOf({ originator, subagent }: { originator: string; subagent: string }): string {
  return `${originator}/${subagent}`
}
