import { networkInterfaces } from 'node:os'
import { expect, it } from 'vitest'
import { isLocalAddress, storedMessageCounts } from './server-settings.js'

it('counts the copies of a server, but for streams of which two accounts have one', () => {
  const account_details = [
    {
      stream_detail: [
        { name: 'PASSOVER', state: { messages: 13_000 } },
        { name: 'KV_agents', state: { messages: 3 } },
      ],
    },
    { stream_detail: [{ name: 'PASSOVER', state: { messages: 2 } }, { name: 'KV_other' }] },
    {},
  ]
  expect([storedMessageCounts({ account_details }), storedMessageCounts({})]).toEqual([{ KV_agents: 3 }, {}])
})

it('takes for this machine its loopback and its interfaces, and no other', async () => {
  const hosts = ['127.0.0.1', '127.1.2.3', '[::1]', '192.0.2.1', '[2001:db8::1]']
  expect(await Promise.all(hosts.map((host) => isLocalAddress(`http://${host}:8222`)))).toEqual([true, true, true, false, false])
  const [own] = Object.values(networkInterfaces()).flatMap((all = []) =>
    all.filter(({ internal, family }) => !internal && family === 'IPv4'),
  )
  if (own) expect(await isLocalAddress(`http://${own.address}:8222`)).toBe(true)
})
