import { type Finding, healthy } from '@passover/core'
import { registerAnswer } from '@passover/schemas'
import type { Deps } from '../runtime/dependencies.js'

/**
 * Asks now and then whether the agent is registered still: one that was taken out gets no passes, and its worker would wait for ever and
 * look well. Nothing is registered by asking.
 */
export class RegistrationCheck {
  readonly #deps: Deps
  #timer: Disposable | undefined
  #gone = false
  #stopped = false

  constructor(deps: Deps) {
    this.#deps = deps
  }

  /** It does not mend by itself, and is no fault of the process. */
  get finding(): Finding {
    if (!this.#gone) return healthy()
    const { identity } = this.#deps.bus
    const what = `no longer: passes to it are refused. Register it again (passover agents add ${identity}), or stop it`
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

  /** Who does not answer says nothing. */
  async #ask(): Promise<void> {
    const asked = this.#deps.bus.ask({ known: true }, { service: 'register' })
    const answer = registerAnswer.safeParse(await asked.catch(() => undefined))
    if (answer.success) this.#gone = !answer.data.ok && answer.data.error.code === 'E001'
  }
}
