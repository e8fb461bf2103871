import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startProcess } from '../../support/processes/processes.js'
import { until, within } from '../../support/processes/until.js'
import { type NatsFixture, natsFixture } from '../../support/servers/nats.js'
import { proxyTo } from '../../support/servers/proxy.js'

const mainOf = (service: string) => fileURLToPath(new URL(`../../../services/${service}/dist/main.js`, import.meta.url))

let nats: NatsFixture
beforeAll(async () => {
  nats = await natsFixture({})
})
afterAll(() => nats?.[Symbol.asyncDispose]())

describe('a service whose server goes away while it starts', () => {
  test.each([
    {
      service: 'dispatcher',
      at: '$JS.API.STREAM.INFO.KV_policy',
      doing: 'it makes streams and buckets',
      says: 'dispatcher accepts requests',
    },
    { service: 'dispatcher', at: '$JS.API.CONSUMER.CREATE.PASSOVER.', doing: 'it reads the stream', says: 'dispatcher accepts requests' },
    { service: 'audit', at: '$JS.API.CONSUMER.CREATE.KV_', doing: 'it reads its buckets', says: 'audit service started' },
  ])('comes up when the server is back: $service, lost while $doing', async ({ service, at, says }) => {
    await using proxy = await proxyTo(nats.url)
    const lost = proxy.cutAt(at)
    await using process = startProcess(mainOf(service), { env: { NATS_URL: proxy.url, PASSOVER_OPEN: 'true' }, name: service })
    await within(lost, `${service} sends ${at}`, 30_000)
    await until(() => process.stderr.includes('the server does not answer while this service starts'), {
      what: 'it says what it waits for',
    })
    expect(process.stderr).not.toContain(says)
    proxy.mend()
    await until(() => process.stderr.includes(says), { what: says })
    expect(process.running).toBe(true)
    expect(process.stderr.match(/while this service starts; retrying/g)).toHaveLength(1)
  })
})

// Three servers are for the test of the image. One cannot keep three copies, and says so to whoever asks for them.
test.each(['dispatcher', 'audit'])('%s asks the server for the copies that PASSOVER_REPLICAS says', async (service) => {
  const env = { NATS_URL: nats.url, PASSOVER_OPEN: 'true', PASSOVER_REPLICAS: '3' }
  await using process = startProcess(mainOf(service), { env, name: service })
  await until(() => !process.running, { what: 'it ends' })
  expect(process.stderr).toMatch(/replicas > 1 not supported|num_replicas is 1, expected 3/)
})

describe.skipIf(process.platform === 'win32')('a service that may open too few files', () => {
  test.each(['dispatcher', 'audit', 'notifier'])('%s says so in one line', (service) => {
    const { status, stderr } = spawnSync('sh', ['-c', `ulimit -n 64; exec '${process.execPath}' '${mainOf(service)}'`], {
      encoding: 'utf8',
    })
    expect({ status, stderr }).toEqual({
      status: 2,
      stderr: expect.stringMatching(/^no more files can be opened: .* 64 .*ulimit -n 4096\n$/),
    })
  })
})
