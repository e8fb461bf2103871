import { SLOTS } from '@passover/schemas'
import type { Context } from './context.js'
import { Pool } from './pool.js'

/** Subagents looked at in one round. */
const ROUND = 64
const WIDTH = 4

/**
 * Sees to it that lost work is found where nobody is left to ask for more: the last worker of a subagent died in its last attempt. The server gives
 * a lease up only while somebody asks, so the dispatcher does; what comes of it is an advisory (D1, decision 116).
 */
export class LostWork {
  readonly #context: Context
  readonly #isOpen: (subagent: string) => boolean
  readonly #pool = new Pool(WIDTH)
  #timer: Disposable | undefined
  #next = 0
  #stopped = false

  /** `isOpen`: whether passes to that subagent are open. */
  constructor(context: Context, isOpen: (subagent: string) => boolean) {
    this.#context = context
    this.#isOpen = isOpen
  }

  start(): void {
    const { deps, options } = this.#context
    this.#timer = deps.clock.after(options.lost_ms, () => {
      if (this.#stopped) return
      this.#round()
      this.start()
    })
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#timer?.[Symbol.dispose]()
    this.#pool.clear()
    await this.#pool.idle()
  }

  #round(): void {
    if (this.#pool.waiting > 0) return
    const names = [...this.#context.registry.consuming()].flatMap(({ name }) => (this.#isOpen(name) ? [name] : []))
    for (let n = 0; n < Math.min(ROUND, names.length); n++) {
      const name = names[this.#next++ % names.length]
      if (name !== undefined) this.#pool.add(() => this.#look(name))
    }
  }

  async #look(subagent: string): Promise<void> {
    const { bus, log } = this.#context.deps
    try {
      for (const slot of SLOTS) {
        await using source = bus.work(subagent, slot)
        if (!this.#stopped) await source.lookForLost()
      }
    } catch (error) {
      log.debug({ err: error, agent: subagent }, 'lost work not looked for')
    }
  }
}
