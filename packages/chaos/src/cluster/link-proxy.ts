import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'

/** The way in which a link is disturbed. */
export type Trouble =
  /** Existing connections break and new ones are refused. */
  | { kind: 'cut' }
  /** Nothing arrives and no end is notified, as if packets were lost. */
  | { kind: 'silent' }
  /** Everything arrives with this delay and at most at this throughput. */
  | { kind: 'slow'; delay_ms: number; bytes_per_s: number }

/** A TCP proxy to one address that can be disturbed without affecting other connections to it. */
export interface LinkProxy extends AsyncDisposable {
  readonly port: number
  trouble(how: Trouble): void
  mend(): void
}

export async function proxyTo(target: { host: string; port: number }): Promise<LinkProxy> {
  const way = new Way(target)
  await way.listen()
  return way
}

class Way implements LinkProxy {
  readonly #target: { host: string; port: number }
  readonly #server: Server
  readonly #open = new Set<Flow>()
  #how: Trouble | undefined

  constructor(target: { host: string; port: number }) {
    this.#target = target
    this.#server = createServer({ pauseOnConnect: true }, (near) => this.#take(near))
  }

  async listen(): Promise<void> {
    await new Promise<void>((listening) => this.#server.listen(0, '127.0.0.1', listening))
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  trouble(how: Trouble): void {
    this.#how = how
    for (const flow of this.#open) flow.become(how)
  }

  /** Ends the disturbance. Silent connections are broken, because their lost packets would leave gaps in the byte stream. */
  mend(): void {
    const silent = this.#how?.kind === 'silent'
    this.#how = undefined
    for (const flow of this.#open) flow.become(silent ? { kind: 'cut' } : undefined)
  }

  #take(near: Socket): void {
    near.on('error', () => undefined)
    if (this.#how?.kind === 'cut') {
      near.destroy()
      return
    }
    const far = connect(this.#target.port, this.#target.host)
    far.on('error', () => undefined)
    const flows = [new Flow(near, far), new Flow(far, near)]
    for (const flow of flows) {
      this.#open.add(flow)
      flow.become(this.#how)
    }
    const over = () => {
      near.destroy()
      far.destroy()
      for (const flow of flows) this.#open.delete(flow)
    }
    near.on('close', over)
    far.on('close', over)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const flow of this.#open) flow.become({ kind: 'cut' })
    await new Promise((closed) => this.#server.close(closed))
  }
}

/** One direction of a connection. */
class Flow {
  readonly #from: Socket
  readonly #to: Socket
  #how: Trouble | undefined
  /** Time at which the last byte received so far is forwarded. */
  #free = 0

  constructor(from: Socket, to: Socket) {
    this.#from = from
    this.#to = to
    from.on('data', (data) => this.#pass(data))
    from.on('end', () => to.end())
    to.on('drain', () => this.#resume())
  }

  become(how: Trouble | undefined): void {
    this.#how = how
    if (how?.kind === 'cut') this.#from.destroy()
    else if (how?.kind === 'silent') this.#from.pause()
    else this.#from.resume()
  }

  #resume(): void {
    if (this.#how?.kind !== 'silent') this.#from.resume()
  }

  #pass(data: Buffer): void {
    const now = performance.now()
    if (this.#how?.kind !== 'slow' && this.#free <= now) {
      if (!this.#to.write(data)) this.#from.pause()
      return
    }
    const { delay_ms, bytes_per_s } = this.#how?.kind === 'slow' ? this.#how : { delay_ms: 0, bytes_per_s: Number.POSITIVE_INFINITY }
    // Keeps the order, also when the link has just become fast again.
    this.#free = Math.max(this.#free, now + delay_ms) + (data.length / bytes_per_s) * 1_000
    this.#from.pause()
    setTimeout(() => {
      if (this.#to.writable) this.#to.write(data)
    }, this.#free - now)
    setTimeout(() => this.#resume(), this.#free - now - delay_ms)
  }
}
