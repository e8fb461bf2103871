/** Tracks open resources so that all of them are closed before the connection is. */
export class DisposableSet {
  readonly #all = new Set<AsyncDisposable>()

  get size(): number {
    return this.#all.size
  }

  add<T extends AsyncDisposable>(opened: T): T {
    this.#all.add(opened)
    return opened
  }

  drop(opened: AsyncDisposable): void {
    this.#all.delete(opened)
  }

  addUntil<T extends AsyncDisposable>(closed: Promise<void>, opened: T): T {
    void closed.then(() => this.drop(opened))
    return this.add(opened)
  }

  async close(): Promise<void> {
    await Promise.allSettled([...this.#all].map((opened) => opened[Symbol.asyncDispose]()))
  }
}
