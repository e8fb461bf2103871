import type { SeededRandom } from '@passover/chaos'
import type { NatsNode } from '../support/servers/nats.js'
import type { Field, Player } from './field.js'

const PAUSE_MS = { least: 300, most: 1_500 }
/** Past the lease of 5 s, so that a frozen worker wakes when another attempt has begun. */
const FROZEN_MS = { least: 300, most: 9_000 }
/** A server that is down longer than a request is tried only shows E040. */
const DOWN_MS = { least: 200, most: 1_500 }

/** Kills and freezes dispatchers and workers at random until it is stopped, and kills the server once. */
export class Trouble {
  /** What was done, in order. */
  readonly done: string[] = []
  readonly #field: Field
  readonly #seed: SeededRandom
  readonly #thaws = new Set<Promise<void>>()
  #stopped = false
  #wake: () => void = () => undefined
  readonly #running: Promise<void>

  constructor(field: Field, seed: SeededRandom, options: { server_after: number }) {
    this.#field = field
    this.#seed = seed
    this.#running = this.#run(options.server_after)
  }

  /** Ends it; everything that was frozen goes on. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#wake()
    await this.#running
    for (const one of [...this.#field.dispatchers, ...this.#field.workers]) if (one.frozen) one.thaw()
    await Promise.all(this.#thaws)
  }

  async #run(server_after: number): Promise<void> {
    for (let n = 0; !this.#stopped; n += 1) {
      await this.#pause(this.#seed.between(PAUSE_MS.least, PAUSE_MS.most))
      if (this.#stopped) return
      if (n === server_after) await this.#server(this.#field.nats.node)
      else await this.#hurt()
    }
  }

  async #hurt(): Promise<void> {
    const { dispatchers, workers } = this.#field
    const kind = this.#seed.chance(40) ? dispatchers : workers
    const one = this.#seed.pick(kind)
    if (this.#seed.chance(50)) {
      this.done.push(`kill ${one.name}`)
      await one.replace()
      return
    }
    const ms = this.#seed.between(FROZEN_MS.least, FROZEN_MS.most)
    // One of a kind stays awake: how long all of them sleep is no business of theirs.
    if (kind.filter((other) => !other.frozen).length <= 1 || one.frozen) return
    this.done.push(`freeze ${one.name} for ${ms} ms`)
    await one.freeze()
    this.#thawLater(one, ms)
  }

  #thawLater(one: Player, ms: number): void {
    const { pid } = one.process
    const thaw: Promise<void> = this.#pause(ms).then(() => {
      this.#thaws.delete(thaw)
      // It may have been killed meanwhile, and another be in its place.
      if (one.frozen && one.process.pid === pid) one.thaw()
    })
    this.#thaws.add(thaw)
  }

  async #server(node: NatsNode): Promise<void> {
    const ms = this.#seed.between(DOWN_MS.least, DOWN_MS.most)
    this.done.push(`kill the server for ${ms} ms`)
    await node.kill()
    await new Promise((over) => setTimeout(over, ms))
    await node.restart()
  }

  /** Ends early when the trouble is stopped. */
  #pause(ms: number): Promise<void> {
    if (this.#stopped) return Promise.resolve()
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms)
      const before = this.#wake
      this.#wake = () => {
        clearTimeout(timer)
        resolve()
        before()
      }
    })
  }
}
