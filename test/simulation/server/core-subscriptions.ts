import type { LiveSubscription } from '@passover/bus'
import { type Line, TIMEOUT_MS } from './network-line.js'
import type { Ear, SimServer } from './server.js'

/** What a simulated connection listens to; the server forgets it when the connection breaks. */
export class SimEars {
  readonly #server: SimServer
  readonly #line: Line
  readonly #listens = new Set<() => void>()

  constructor(server: SimServer, line: Line) {
    this.#server = server
    this.#line = line
  }

  async open(wanted: Omit<Ear, 'line'>[]): Promise<LiveSubscription> {
    const line = this.#line
    const { ears } = this.#server
    const own = wanted.map((ear) => ({ ...ear, line }))
    let closed = false
    const listen = () =>
      line.up(() => {
        if (!closed && line.connected) for (const ear of own) ears.add(ear)
      }, 'arrives')
    this.#listens.add(listen)
    listen()
    // The round trip after which the server has it; a broken connection makes it anew by itself.
    await line.request(() => true, TIMEOUT_MS)
    return {
      get closed() {
        return closed
      },
      [Symbol.asyncDispose]: async () => {
        closed = true
        this.#listens.delete(listen)
        for (const ear of own) ears.delete(ear)
      },
    }
  }

  /** After a reconnect. */
  again(): void {
    for (const listen of this.#listens) listen()
  }
}
