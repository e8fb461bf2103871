import { encode } from '@passover/bus'
import { HEADER, type PassKey } from '@passover/schemas'
import type { Pass } from '@passover/sdk'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { storedForPasses } from '../../support/assertions/stream.js'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { staysTrue, until, within } from '../../support/processes/until.js'
import { proxyTo } from '../../support/servers/proxy.js'

let world: AgentWorld
beforeAll(async () => {
  // `cut` is away for longer than a heartbeat, on a machine that others use too: its lease is not what is tried here.
  const document = { subagents: { cut: { lease_ms: 60_000 } } }
  world = await AgentWorld.start({ dispatchers: [{ policy: { version: 0, document } }] })
})
afterAll(async () => {
  await world?.[Symbol.asyncDispose]()
})

const work_context = { objective: 'do it' }

/** A handler that returns when it is told to. */
function onCommand() {
  const waiting: ((text: string) => void)[] = []
  const runs = () => until(() => waiting.length > 0, { what: 'the handler runs' })
  return {
    handler: (_pass: Pass) => new Promise<string>((resolve) => waiting.push(resolve)),
    runs,
    async release(text: string) {
      await runs()
      waiting.shift()?.(text)
    },
  }
}

describe('hearing returns', () => {
  it('a return that is stored while the originator is cut off is had soon after it is back', async () => {
    await using proxy = await proxyTo(world.world.nats.url)
    const alice = await world.agent('alice', undefined, proxy.url)
    const quick = await world.agent('quick')
    const command = onCommand()
    await using _worker = await quick.onPass(command.handler)
    const handle = alice.passOver({ subagent: 'quick', reason: 'x', work_context, timeout_ms: 300_000 })
    await handle.stored
    proxy.cut()
    await command.release('stored meanwhile')
    const key = { originator: 'alice', subagent: 'quick', id: handle.id }
    await world.world.state(key, 'done')
    const before = await storedForPasses(world.world.bus)
    proxy.mend()
    // Long before its deadline, which would tell it as well.
    expect((await within(handle.result(), 'it is had', 60_000)).output).toBe('stored meanwhile')
    expect(await storedForPasses(world.world.bus)).toEqual(before)
  })

  it('a worker that is cut off while it returns gives back once it is connected again', async () => {
    await using proxy = await proxyTo(world.world.nats.url)
    const alice = await world.agent('alice')
    const cut = await world.agent('cut', undefined, proxy.url)
    const command = onCommand()
    await using _worker = await cut.onPass(command.handler)
    const handle = alice.passOver({ subagent: 'cut', reason: 'x', work_context })
    await handle.stored
    await world.world.work({ originator: 'alice', subagent: 'cut', id: handle.id })
    await command.runs()
    setTimeout(() => proxy.mend(), 1_500)
    proxy.cut()
    await command.release('in spite of all')
    expect(await handle).toMatchObject({ output: 'in spite of all', metadata: { attempt: 1 } })
  })

  it('drops a return that somebody else makes the server send, and reads instead', async () => {
    const alice = await world.agent('alice')
    const victim = await world.agent('victim')
    const command = onCommand()
    await using _worker = await victim.onPass(command.handler)
    const handle = alice.passOver({ subagent: 'victim', reason: 'x', work_context })
    await handle.stored
    const key: PassKey = { originator: 'alice', subagent: 'victim', id: handle.id }
    await world.world.work(key)
    const { bus } = world.world
    // A message that looks like a return, published on the subject where returns are heard.
    const forged = encode({ v: 1, output: { status: 'completed', output: 'forged' } })
    await bus.publish({ subject: bus.subjects.returned(key, 'victim'), headers: { [HEADER.attempt]: '1' }, data: forged })
    let settled = false
    void handle.then(() => {
      settled = true
    })
    await staysTrue(() => !settled, { what: 'the forged return is not taken', for_ms: 700 })
    await command.release('real')
    expect((await handle).output).toBe('real')
  })

  it('each of several processes of one name hears its own returns only', async () => {
    const replicas = await Promise.all([1, 2, 3].map(() => world.agent('alice')))
    const echo = await world.agent('echo')
    await using _worker = await echo.onPass((pass) => pass.reason)
    const outputs = await Promise.all(
      replicas.flatMap((alice, n) => [0, 1, 2].map((m) => alice.passOver({ subagent: 'echo', reason: `${n}${m}`, work_context }))),
    )
    expect(outputs.map((output) => output.output)).toEqual(['00', '01', '02', '10', '11', '12', '20', '21', '22'])
    expect(replicas.map((alice) => alice.awaited)).toEqual([0, 0, 0])
  })

  it('large files and artifacts travel by reference, both ways', async () => {
    const alice = await world.agent('alice')
    const big = await world.agent('big')
    const content = 'x'.repeat(900_000)
    await using _worker = await big.onPass((pass) => {
      const [file] = pass.context.files
      const artifact = {
        type: 'file_modification' as const,
        path: 'a.txt',
        old_content: file?.content ?? '',
        new_content: `${file?.content}!`,
        reason: 'more',
        confidence: 'high' as const,
      }
      return { artifacts: [artifact] }
    })
    const output = await alice.passOver({
      subagent: 'big',
      reason: 'x',
      work_context: { objective: 'o', files: [{ path: 'a.txt', content }] },
    })
    const [artifact] = output.artifacts
    expect(artifact?.type === 'file_modification' && artifact.new_content.length).toBe(900_001)
  })
})
