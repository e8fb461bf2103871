import { encode } from '@passover/bus'
import { packSequences, withTimeout } from '@passover/core'
import { type AcknowledgedBody, MAX_ACKNOWLEDGED, WIRE_VERSION } from '@passover/schemas'
import { eventHeaders } from '../messages/publish.js'
import type { Deps } from '../runtime/dependencies.js'

const INTERVAL_MS = 1_000
/** Milliseconds for which a closing process waits until its last acknowledgments are stored. */
const FINAL_FLUSH_MS = 2_000
/** Maximum number of returns that wait to be acknowledged. Beyond it acknowledgments are dropped, and those passes stay in the state returned. */
const MAX_WAITING = 4 * MAX_ACKNOWLEDGED

/** Publishes lists of the returns that this process delivered to their callers: at most one list per second, and a last one at the end. */
export class AckPublisher implements AsyncDisposable {
  readonly #deps: Deps
  readonly #name: string
  #waiting: number[] = []
  #inFlight: readonly number[] = []
  readonly #unstored = new Map<number, { resolve: () => void; reject: (error: Error) => void }>()
  #timer: Disposable | undefined
  #sending: Promise<void> | undefined
  #closed = false

  constructor(deps: Deps, name: string) {
    this.#deps = deps
    this.#name = name
  }

  /** Records that the return at this stream sequence was delivered. */
  note(sequence: number): void {
    this.#waiting.push(sequence)
    if (this.#timer === undefined) this.#schedule()
  }

  /** Records a delivery. Resolves when the acknowledgment is stored, and rejects if the agent is closed before that. */
  acknowledge(sequence: number): Promise<void> {
    const stored = new Promise<void>((resolve, reject) => this.#unstored.set(sequence, { resolve, reject }))
    this.note(sequence)
    // The listener finished after the agent began to close, so there is no next interval to wait for.
    if (this.#closed) void this.#send().then(() => this.#abandon([sequence]))
    return stored
  }

  /** Returns true if the return was recorded as delivered, but the acknowledgment is not stored yet. */
  isPending(sequence: number): boolean {
    return this.#waiting.includes(sequence) || this.#inFlight.includes(sequence)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    this.#timer?.[Symbol.dispose]()
    const unstored = [...this.#unstored.keys()]
    await withTimeout(this.#deps.clock, FINAL_FLUSH_MS, this.#flush())
    this.#abandon(unstored)
  }

  /** Rejects the callers that wait for these acknowledgments. */
  #abandon(sequences: readonly number[]): void {
    for (const sequence of sequences) {
      this.#unstored.get(sequence)?.reject(new Error('the agent was closed'))
      this.#unstored.delete(sequence)
    }
  }

  async #flush(): Promise<void> {
    await this.#sending
    if (this.#waiting.length > 0) await this.#send()
  }

  #schedule(): void {
    if (this.#closed) return
    this.#timer = this.#deps.clock.after(INTERVAL_MS, () => {
      this.#sending = this.#send().finally(() => {
        this.#timer = undefined
        if (this.#waiting.length > 0) this.#schedule()
      })
    })
  }

  /** Publishes one message. If it is not stored, its sequences go into the next one; a repeated acknowledgment does no harm. */
  async #send(): Promise<void> {
    const ascending = this.#waiting.sort((a, b) => a - b)
    const batch = ascending.slice(0, MAX_ACKNOWLEDGED)
    this.#waiting = ascending.slice(MAX_ACKNOWLEDGED)
    this.#inFlight = batch
    const body: AcknowledgedBody = { v: WIRE_VERSION, returns: packSequences(batch) }
    const { bus } = this.#deps
    const message = { subject: bus.subjects.acknowledged(this.#name), headers: eventHeaders(undefined), data: encode(body) }
    const outcome = await bus.publish(message).catch(() => undefined)
    this.#inFlight = []
    if (outcome?.kind === 'stored' || (outcome?.kind === 'refused' && outcome.reason === 'permission')) {
      this.#stored(batch)
      return
    }
    const room = MAX_WAITING - this.#waiting.length
    if (room > 0) this.#waiting.push(...batch.slice(-room))
  }

  #stored(sequences: readonly number[]): void {
    if (this.#unstored.size === 0) return
    for (const sequence of sequences) {
      this.#unstored.get(sequence)?.resolve()
      this.#unstored.delete(sequence)
    }
  }
}
