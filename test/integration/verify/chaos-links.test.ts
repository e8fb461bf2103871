import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { expect, test } from 'vitest'
import { type LinkProxy, proxyTo } from '../../../packages/chaos/src/cluster/link-proxy.js'
import { staysTrue, until } from '../../support/processes/until.js'

/** A server that says back what it hears, and a way to it. */
async function echo(): Promise<{ way: LinkProxy } & AsyncDisposable> {
  const server = createServer((socket) => socket.on('error', () => undefined).pipe(socket))
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  const way = await proxyTo({ host: '127.0.0.1', port: (server.address() as AddressInfo).port })
  return {
    way,
    async [Symbol.asyncDispose]() {
      await way[Symbol.asyncDispose]()
      await new Promise((closed) => server.close(closed))
    },
  }
}

function talk({ port }: LinkProxy): { socket: Socket; heard: () => string; over: () => boolean } {
  const socket = connect(port, '127.0.0.1')
  let text = ''
  let ended = false
  socket.setEncoding('utf8').on('data', (more: string) => {
    text += more
  })
  socket
    .on('error', () => undefined)
    .on('close', () => {
      ended = true
    })
  return { socket, heard: () => text, over: () => ended }
}

test('a silent link lets nothing through and tells nobody; mended, its connections break and new ones work', async () => {
  await using there = await echo()
  const before = talk(there.way)
  before.socket.write('a')
  await until(() => before.heard() === 'a', { what: 'it is heard' })
  there.way.trouble({ kind: 'silent' })
  before.socket.write('b')
  const during = talk(there.way)
  during.socket.write('c')
  await staysTrue(() => before.heard() === 'a' && during.heard() === '' && !before.over(), { what: 'nothing gets through', for_ms: 300 })
  there.way.mend()
  await until(() => before.over() && during.over(), { what: 'what was silent breaks' })
  const after = talk(there.way)
  after.socket.write('d')
  await until(() => after.heard() === 'd', { what: 'it is heard again' })
  after.socket.destroy()
})

test('a cut link breaks at once and takes nobody', async () => {
  await using there = await echo()
  const before = talk(there.way)
  before.socket.write('a')
  await until(() => before.heard() === 'a', { what: 'it is heard' })
  there.way.trouble({ kind: 'cut' })
  await until(() => before.over(), { what: 'it breaks' })
  const during = talk(there.way)
  await until(() => during.over(), { what: 'nobody is taken' })
})

test('a slow link is late and narrow, and loses and mixes nothing, also where it becomes quick again', async () => {
  await using there = await echo()
  const { socket, heard } = talk(there.way)
  there.way.trouble({ kind: 'slow', delay_ms: 100, bytes_per_s: 50_000 })
  const began = performance.now()
  const sent = Array.from({ length: 2_000 }, (_, n) => `${n} `).join('')
  socket.write(sent)
  await until(() => heard().length > 0, { what: 'its beginning is heard', every_ms: 1 })
  // There and back, each 100 ms.
  expect(performance.now() - began).toBeGreaterThanOrEqual(190)
  there.way.mend()
  socket.write('end')
  await until(() => heard().endsWith('end'), { what: 'all is heard' })
  expect(heard()).toBe(`${sent}end`)
  socket.destroy()
})
