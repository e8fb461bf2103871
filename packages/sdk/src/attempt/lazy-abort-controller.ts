/** An abort controller that creates its signal on first access: most handlers never use it. */
export class LazyAbortController {
  #controller: AbortController | undefined
  #reason: Error | undefined

  get aborted(): boolean {
    return this.#reason !== undefined
  }

  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController()
      if (this.#reason) this.#controller.abort(this.#reason)
    }
    return this.#controller.signal
  }

  abort(reason: Error): void {
    if (this.#reason) return
    this.#reason = reason
    this.#controller?.abort(reason)
  }
}
