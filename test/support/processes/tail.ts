/** The end of a text that goes on. What comes is not joined with a MiB each time: whoever says much would cost its listener as much again. */
export class Tail {
  readonly #most: number
  #pieces: string[] = []
  #length = 0

  constructor(most: number) {
    this.#most = most
  }

  add(piece: string): void {
    this.#pieces.push(piece)
    this.#length += piece.length
    if (this.#length > 2 * this.#most) this.#keep(this.text)
  }

  get text(): string {
    if (this.#pieces.length > 1 || this.#length > this.#most) this.#keep(this.#pieces.join('').slice(-this.#most))
    return this.#pieces[0] ?? ''
  }

  #keep(text: string): void {
    this.#pieces = [text]
    this.#length = text.length
  }
}
