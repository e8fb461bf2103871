import { encode } from '@passover/bus'
import { packSequences } from '@passover/core'
import { type AcknowledgedBody, MAX_ACKNOWLEDGED, WIRE_VERSION } from '@passover/schemas'
import { type Deps, within } from './deps.js'

const EVERY_MS = 1_000
/** How long a process that ends waits for its last acknowledgment to be stored. */
const LAST_MS = 2_000
/** What could not be said for so long is not said any more: those passes stay as returned. */
const MOST_WAITING = 4 * MAX_ACKNOWLEDGED

/** Says which returns this process handed to their callers: a list, at most once a second (DESIGN §2), the last one when it ends. */
export class Acknowledging implements AsyncDisposable {
  readonly #deps: Deps
  readonly #name: string
  #noted: number[] = []
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

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    this.#timer?.[Symbol.dispose]()
    await within(this.#deps.clock, LAST_MS, this.#last())
  }

  async #last(): Promise<void> {
    await this.#sending
    if (this.#noted.length > 0) await this.#send()
  }

  #later(): void {
    if (this.#closed) return
    this.#timer = this.#deps.clock.after(EVERY_MS, () => {
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
    const body: AcknowledgedBody = { v: WIRE_VERSION, returns: packSequences(now) }
    const { bus } = this.#deps
    const message = { subject: bus.subjects.acknowledged(this.#name), data: encode(body) }
    const outcome = await bus.publish(message).catch(() => undefined)
    if (outcome?.kind === 'stored' || (outcome?.kind === 'refused' && outcome.reason === 'permission')) return
    const room = MOST_WAITING - this.#noted.length
    if (room > 0) this.#noted.push(...now.slice(-room))
  }
}
