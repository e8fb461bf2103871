/** Does so much at once; what more there is waits, in its order. */
export class AtMost {
  private running = 0
  private readonly waiting: (() => void)[] = []

  constructor(private readonly count: number) {}

  async do<T>(work: () => Promise<T>): Promise<T> {
    if (this.running < this.count) this.running++
    else await new Promise<void>((turn) => this.waiting.push(turn))
    try {
      return await work()
    } finally {
      const turn = this.waiting.shift()
      if (turn) turn()
      else this.running--
    }
  }
}
