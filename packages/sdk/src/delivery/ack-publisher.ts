import { encode } from '@passover/bus'
import { packSequences, withTimeout } from '@passover/core'
import { type AcknowledgedBody, MAX_ACKNOWLEDGED, WIRE_VERSION } from '@passover/schemas'
import { eventHeaders } from '../messages/publish.js'
import type { Deps } from '../runtime/dependencies.js'

const INTERVAL_MS = 1_000
/** How long a process that ends waits for its last acknowledgment to be stored. */
const FINAL_FLUSH_MS = 2_000
/** What could not be said for so long is not said any more: those passes stay as returned. */
const MAX_WAITING = 4 * MAX_ACKNOWLEDGED

/** Says which returns this process handed to their callers: a list, at most once a second, the last one when it ends. */
export class AckPublisher implements AsyncDisposable {
  readonly #deps: Deps
  readonly #name: string
  #noted: number[] = []
  #saying: readonly number[] = []
  readonly #unstored = new Map<number, { resolve: () => void; reject: (error: Error) => void }>()
  #timer: Disposable | undefined
  #sending: Promise<void> | undefined
  #closed = false

  constructor(deps: Deps, name: string) {
    this.#deps = deps
    this.#name = name
  }

  /** The return at this sequence was handed over. */
  note(sequence: number): void {
    this.#noted.push(sequence)
    if (this.#timer === undefined) this.#later()
  }

  /** The same; settles when it is stored that it was. Rejects where this process ends before. */
  acknowledge(sequence: number): Promise<void> {
    const stored = new Promise<void>((resolve, reject) => this.#unstored.set(sequence, { resolve, reject }))
    this.note(sequence)
    // A listener that was not done when the agent began to close: there is no next second to wait for.
    if (this.#closed) void this.#send().then(() => this.#abandon([sequence]))
    return stored
  }

  /** Whether it is noted, and not stored yet. */
  isPending(sequence: number): boolean {
    return this.#noted.includes(sequence) || this.#saying.includes(sequence)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    this.#timer?.[Symbol.dispose]()
    const unstored = [...this.#unstored.keys()]
    await withTimeout(this.#deps.clock, FINAL_FLUSH_MS, this.#last())
    this.#abandon(unstored)
  }

  /** What is not stored by now is not waited for any longer. */
  #abandon(sequences: readonly number[]): void {
    for (const sequence of sequences) {
      this.#unstored.get(sequence)?.reject(new Error('the agent was closed'))
      this.#unstored.delete(sequence)
    }
  }

  async #last(): Promise<void> {
    await this.#sending
    if (this.#noted.length > 0) await this.#send()
  }

  #later(): void {
    if (this.#closed) return
    this.#timer = this.#deps.clock.after(INTERVAL_MS, () => {
      this.#sending = this.#send().finally(() => {
        this.#timer = undefined
        if (this.#noted.length > 0) this.#later()
      })
    })
  }

  /** One message. What was not stored is said with the next one: saying it twice does no harm. */
  async #send(): Promise<void> {
    const ascending = this.#noted.sort((a, b) => a - b)
    const now = ascending.slice(0, MAX_ACKNOWLEDGED)
    this.#noted = ascending.slice(MAX_ACKNOWLEDGED)
    this.#saying = now
    const body: AcknowledgedBody = { v: WIRE_VERSION, returns: packSequences(now) }
    const { bus } = this.#deps
    const message = { subject: bus.subjects.acknowledged(this.#name), headers: eventHeaders(undefined), data: encode(body) }
    const outcome = await bus.publish(message).catch(() => undefined)
    this.#saying = []
    if (outcome?.kind === 'stored' || (outcome?.kind === 'refused' && outcome.reason === 'permission')) {
      this.#stored(now)
      return
    }
    const room = MAX_WAITING - this.#noted.length
    if (room > 0) this.#noted.push(...now.slice(-room))
  }

  #stored(sequences: readonly number[]): void {
    if (this.#unstored.size === 0) return
    for (const sequence of sequences) {
      this.#unstored.get(sequence)?.resolve()
      this.#unstored.delete(sequence)
    }
  }
}
