import { type Finding, healthy } from '@passover/core'
import { registerAnswer } from '@passover/schemas'
import type { Deps } from '../runtime/dependencies.js'

/**
 * Checks periodically that the agent is still registered. An agent that was removed gets no passes, and its worker would wait forever although it looks
 * healthy. The check does not register the agent.
 */
export class RegistrationCheck {
  readonly #deps: Deps
  #timer: Disposable | undefined
  #gone = false
  #stopped = false

  constructor(deps: Deps) {
    this.#deps = deps
  }

  /** Health finding. A removed registration does not recover on its own, and a restart of the process does not help. */
  get finding(): Finding {
    if (!this.#gone) return healthy()
    const { identity } = this.#deps.bus
    const what = `it was removed from the registry, and passes to it are refused. Register it again (passover agents add ${identity}), or stop this worker`
    return { state: 'failed', what, restart_helps: false }
  }

  begin(): void {
    const { registered_ms, clock } = this.#deps
    if (registered_ms === undefined || this.#stopped) return
    this.#timer = clock.after(registered_ms, () => void this.#ask().then(() => this.begin()))
  }

  stop(): void {
    this.#stopped = true
    this.#timer?.[Symbol.dispose]()
  }

  /** Asks the dispatchers. A missing answer changes nothing. */
  async #ask(): Promise<void> {
    const answering = this.#deps.bus.ask({ known: true }, { service: 'register' })
    const answer = registerAnswer.safeParse(await answering.catch(() => undefined))
    if (answer.success) this.#gone = !answer.data.ok && answer.data.error.code === 'E001'
  }
}
