import { createServer, type Server } from 'node:net'

/**
 * Ports that nobody listens on at the moment. Someone may take one before it is used: whoever calls this must be ready to try
 * again with others. Where the server can choose by itself (port -1), let it.
 */
export async function freePorts(count: number): Promise<number[]> {
  const held: Server[] = []
  try {
    for (let i = 0; i < count; i++) held.push(await listen())
    return held.map((server) => {
      const address = server.address()
      if (address === null || typeof address === 'string') throw new Error('a TCP server has a port')
      return address.port
    })
  } finally {
    await Promise.all(held.map((server) => new Promise((closed) => server.close(closed))))
  }
}

function listen(): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => resolve(server))
  })
}
