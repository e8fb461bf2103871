import TinyQueue from 'tinyqueue'

/** Entry of an item in the queue. Moving or dropping the item leaves a dead entry behind. */
export interface Timer {
  at: number
  order: number
  item: Timed | undefined
}

export interface Timed {
  timer?: Timer | undefined
}

const DEAD_ALLOWED = 1024

/**
 * Priority queue of items by due time. A heap whose dead entries are skipped at the top, and removed once they outnumber the live ones. Each change
 * costs O(log n) on average. Items with the same time come in the order of their number.
 */
export class TimerQueue<T extends Timed> {
  #queue = new TinyQueue<Timer>([], sooner)
  #living = 0

  /** Sets or changes the item's time. */
  set(item: T, at: number, order: number): void {
    if (item.timer?.at === at) return
    this.drop(item)
    item.timer = { at, order, item }
    this.#queue.push(item.timer)
    this.#living += 1
  }

  drop(item: T): void {
    if (!item.timer) return
    item.timer.item = undefined
    item.timer = undefined
    this.#living -= 1
    if (this.#queue.length > 2 * this.#living + DEAD_ALLOWED) this.#sweep()
  }

  /** Removes and returns the first item that is due. */
  take(now: number): T | undefined {
    const first = this.#first()
    if (!first?.item || first.at > now) return undefined
    const item = first.item as T
    this.#queue.pop()
    item.timer = undefined
    this.#living -= 1
    return item
  }

  nextAt(): number | undefined {
    return this.#first()?.at
  }

  #first(): Timer | undefined {
    while (this.#queue.length > 0 && this.#queue.peek()?.item === undefined) this.#queue.pop()
    return this.#queue.peek()
  }

  #sweep(): void {
    this.#queue = new TinyQueue(
      this.#queue.data.filter(({ item }) => item !== undefined),
      sooner,
    )
  }
}

function sooner(a: Timer, b: Timer): number {
  return a.at - b.at || a.order - b.order
}
