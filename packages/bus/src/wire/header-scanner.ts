import { RawHeaders, valueIn } from './headers.js'
import type { MessageHeaders } from './messages.js'

/** Index of a distinguishing character: our header names differ there if they agree in length and last character. */
const MIDDLE = 9
const CR = 0x0d

interface Known {
  name: string
  at: number
}

/**
 * Reads several headers in one pass over the block, without creating a string for each name. A reader of every message asks for a dozen headers, and
 * a search for each costs several times as much.
 */
export class HeaderScanner<F extends string> {
  readonly #names: readonly string[]
  readonly #known = new Map<number, Known>()
  /** Index of each field's value in the result of `firsts`. */
  readonly at: Readonly<Record<F, number>>

  constructor(fields: Readonly<Record<F, string>>) {
    const entries = Object.entries<string>(fields)
    this.#names = entries.map(([, name]) => name)
    this.at = Object.fromEntries(entries.map(([field], at) => [field, at])) as Record<F, number>
    for (const [at, name] of this.#names.entries()) {
      const mark = markOf(name, 0, name.length)
      if (this.#known.has(mark)) throw new TypeError(`${name} is not told from ${this.#known.get(mark)?.name} by its mark`)
      this.#known.set(mark, { name, at })
    }
  }

  /** Returns the first value of each header, in the order of the fields. */
  firsts(headers: MessageHeaders): (string | undefined)[] {
    if (headers instanceof RawHeaders) return this.#ofBlock(headers.text())
    return this.#names.map((name) => headers.get(name))
  }

  #ofBlock(block: string): (string | undefined)[] {
    const values: (string | undefined)[] = new Array(this.#names.length).fill(undefined)
    for (let end = lineEnd(block, 0); end >= 0; ) {
      const from = end + 2
      end = lineEnd(block, from)
      const colon = block.indexOf(':', from)
      const to = end < 0 ? block.length : end
      if (colon <= from || colon >= to) continue
      const known = this.#known.get(markOf(block, from, colon))
      if (known && values[known.at] === undefined && block.startsWith(known.name, from)) values[known.at] = valueIn(block, colon + 1, to)
    }
    return values
  }
}

/** Returns the index of the next CRLF. Searching for one character is several times as fast as for two. */
function lineEnd(block: string, from: number): number {
  let at = block.indexOf('\n', from)
  while (at >= 0 && block.charCodeAt(at - 1) !== CR) at = block.indexOf('\n', at + 1)
  return at < 0 ? at : at - 1
}

function markOf(text: string, from: number, to: number): number {
  return ((to - from) << 14) | ((text.charCodeAt(from + MIDDLE) & 127) << 7) | (text.charCodeAt(to - 1) & 127)
}
