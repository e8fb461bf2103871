import type { AddressInfo } from 'node:net'
import { connect, createServer, type Server, type Socket } from 'node:net'

/** A way to a server that a test can cut, while everybody else stays connected. */
export interface Proxy extends AsyncDisposable {
  readonly url: string
  /** Breaks every connection and takes no new one until `mend`. */
  cut(): void
  /** Connections that are there stay open and carry nothing any more; new ones work. */
  silence(): void
  mend(): void
  /** Cuts when a client sends this text next; settles when it did. */
  cutAt(text: string): Promise<void>
}

export async function proxyTo(url: string): Promise<Proxy> {
  const target = new URL(url)
  const open = new Set<Socket>()
  let broken = false
  let watched: { text: string; cut: () => void } | undefined
  const server: Server = createServer((near) => {
    if (broken) {
      near.destroy()
      return
    }
    const far = connect(Number(target.port), target.hostname)
    near.on('data', (bytes: Buffer) => {
      if (watched && bytes.includes(watched.text)) watched.cut()
    })
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(socket)
      socket.on('error', () => undefined)
      socket.on('close', () => {
        open.delete(socket)
        other.destroy()
      })
      socket.pipe(other)
    }
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  const { port } = server.address() as AddressInfo
  const cut = () => {
    broken = true
    watched = undefined
    for (const socket of open) socket.destroy()
  }
  return {
    url: `nats://127.0.0.1:${port}`,
    cut,
    cutAt(text) {
      return new Promise((done) => {
        watched = {
          text,
          cut() {
            cut()
            done()
          },
        }
      })
    },
    silence() {
      for (const socket of open) {
        socket.unpipe()
        socket.resume()
      }
    },
    mend() {
      broken = false
    },
    async [Symbol.asyncDispose]() {
      for (const socket of open) socket.destroy()
      await new Promise((closed) => server.close(closed))
    },
  }
}
