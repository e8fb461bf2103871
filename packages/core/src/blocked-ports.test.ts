import { expect, it } from 'vitest'
import { blockedPort } from './blocked-ports.js'

it('names only ports that fetch refuses', async () => {
  const blocked = Array.from({ length: 65_536 }, (_, port) => port).filter((port) => blockedPort(`http://127.0.0.1:${port}/hook`) === port)
  expect(blocked).toContain(6000)
  const why = (port: number) => fetch(`http://127.0.0.1:${port}/`).catch(({ cause }: { cause?: { message?: string } }) => cause?.message)
  // Port 0 is refused by newer versions of fetch, and by the system.
  for (const port of blocked.filter((one) => one !== 0)) expect([port, await why(port)]).toEqual([port, 'bad port'])
  for (const address of ['https://example.org/hook', 'http://example.org:8080', 'none']) expect(blockedPort(address)).toBeUndefined()
})
