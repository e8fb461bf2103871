/** Stands for every word that came when there was no more room: whether it is the one that is looked for, its record says. */
export const OTHER = 0

/** Words as numbers, for columns. A word that nothing refers to any more leaves its number to another. */
export class Dictionary {
  private readonly numbers = new Map<string, number>()
  private readonly words: (string | undefined)[] = [undefined]
  private readonly uses: number[] = [0]
  private readonly free: number[] = []

  /** Numbers are below `most`. */
  constructor(private readonly most: number) {}

  /** The number of a word, one use more. */
  take(word: string): number {
    const known = this.numbers.get(word)
    if (known !== undefined) {
      this.uses[known] = (this.uses[known] ?? 0) + 1
      return known
    }
    const number = this.free.pop() ?? this.words.length
    if (number >= this.most) return OTHER
    this.numbers.set(word, number)
    this.words[number] = word
    this.uses[number] = 1
    return number
  }

  /** One use less. */
  release(number: number): void {
    if (number === OTHER) return
    const left = (this.uses[number] ?? 0) - 1
    this.uses[number] = left
    if (left > 0) return
    const word = this.words[number]
    if (word !== undefined) this.numbers.delete(word)
    this.words[number] = undefined
    this.free.push(number)
  }

  /** Undefined: no entry has this word, unless it is among the others. */
  find(word: string): number | undefined {
    return this.numbers.get(word)
  }

  word(number: number): string | undefined {
    return this.words[number]
  }

  /** Every word in use, with its number. */
  entries(): IterableIterator<[string, number]> {
    return this.numbers.entries()
  }

  /** Numbers run below it. */
  get size(): number {
    return this.words.length
  }
}
