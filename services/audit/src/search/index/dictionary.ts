/** Number for every word that came when the dictionary was full. Only the record of such an entry says which word it is. */
export const OTHER = 0

/** Maps words to numbers for columns. The number of a word that is no longer used is given to another word. */
export class Dictionary {
  readonly #most: number
  readonly #numbers = new Map<string, number>()
  readonly #words: (string | undefined)[] = [undefined]
  readonly #uses: number[] = [0]
  readonly #free: number[] = []

  /** Numbers are less than `most`. */
  constructor(most: number) {
    this.#most = most
  }

  /** Returns the number of a word and adds one use. */
  take(word: string): number {
    const known = this.#numbers.get(word)
    if (known !== undefined) {
      this.#uses[known] = (this.#uses[known] ?? 0) + 1
      return known
    }
    const number = this.#free.pop() ?? this.#words.length
    if (number >= this.#most) return OTHER
    this.#numbers.set(word, number)
    this.#words[number] = word
    this.#uses[number] = 1
    return number
  }

  /** Removes one use. */
  release(number: number): void {
    if (number === OTHER) return
    const left = (this.#uses[number] ?? 0) - 1
    this.#uses[number] = left
    if (left > 0) return
    const word = this.#words[number]
    if (word !== undefined) this.#numbers.delete(word)
    this.#words[number] = undefined
    this.#free.push(number)
  }

  /** Returns the number of a word; `undefined` if no entry has it, except possibly under `OTHER`. */
  find(word: string): number | undefined {
    return this.#numbers.get(word)
  }

  word(number: number): string | undefined {
    return this.#words[number]
  }

  /** Returns every word in use, with its number. */
  entries(): IterableIterator<[string, number]> {
    return this.#numbers.entries()
  }

  /** Upper bound of the numbers in use; all are less. */
  get size(): number {
    return this.#words.length
  }
}
