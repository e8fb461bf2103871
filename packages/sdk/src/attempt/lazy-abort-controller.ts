/** An abort signal that is made when it is first asked for: most handlers never do. */
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
