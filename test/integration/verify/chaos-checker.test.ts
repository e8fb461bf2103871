import { jetstream, jetstreamManager, StorageType } from '@nats-io/jetstream'
import { connect, headers } from '@nats-io/transport-node'
import { checkStream } from '@passover/chaos'
import { expect, it } from 'vitest'
import { natsFixture } from '../../support/servers/nats.js'

it('reads a real stream to its end and judges it by the server’s clock', async () => {
  await using nats = await natsFixture()
  const before = await nats.census()
  const nc = await connect({ servers: nats.servers, noAsyncTraces: true })
  const js = jetstream(nc)
  await (await jetstreamManager(nc)).streams.add({
    name: 'PASSOVER',
    subjects: ['request.*.*', 'work.>', 'return.>'],
    storage: StorageType.File,
  })
  expect((await checkStream(nats.servers)).totals.messages).toBe(0)

  const step = async (subject: string, guard: number | undefined, more: Record<string, string>) => {
    const head = headers()
    const [, o, s, id] = subject.split('.')
    if (guard !== undefined) {
      head.set('Nats-Expected-Last-Subject-Sequence', String(guard))
      head.set('Nats-Expected-Last-Subject-Sequence-Subject', `*.${o}.${s}.${id}.*`)
    }
    for (const [name, value] of Object.entries(more)) head.set(name, value)
    return (await js.publish(subject, '{}', { headers: head })).seq
  }
  const passes = Array.from({ length: 200 }, (_, i) => `pass-${String(i).padStart(6, '0')}`)
  await Promise.all(
    passes.map(async (id) => {
      await step('request.audit.alice', undefined, { 'Passover-Id': id, 'Passover-Timeout': '30000' })
      const work = await step(`work.alice.audit.${id}.high`, 0, { 'Passover-Timeout': id === passes[0] ? '-5000' : '30000' })
      if (id !== passes[0]) await step(`return.alice.audit.${id}.audit`, work, { 'Passover-Attempt': '1', 'Passover-Status': 'completed' })
    }),
  )
  const { totals, problems, ignored } = await checkStream(nats.servers)
  expect(totals).toMatchObject({ messages: 599, requests: 200, passes: 200, ended: 199, open: 1, fences: 0 })
  expect(ignored).toEqual([])
  expect(problems).toHaveLength(1)
  expect(problems[0]).toMatch(/^alice\/audit\/pass-000000: still open/)
  await nc.close()
  await nats.untilNothingLeft(before)
})
