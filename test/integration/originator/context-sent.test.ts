import type { WorkContext } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { AgentWorld } from '../../support/dispatcher/agents.js'

/** What policy lets through of a context: what is dropped is not in the work message, and the handler never gets it. */

const MIB = 1024 * 1024
const document = {
  subagents: {
    blind: { pass_context: false },
    fileless: { pass_files: false },
    roomy: { max_context_size_bytes: 16 * MIB },
    closed: { can_receive_passes: false },
  },
}

let world: AgentWorld
beforeAll(async () => {
  world = await AgentWorld.start({ dispatchers: [{ policy: { version: 1, document } }] })
})
afterAll(async () => {
  await world?.[Symbol.asyncDispose]()
})

const whole: Partial<WorkContext> & { objective: string } = {
  objective: 'look',
  files: [{ path: 'a.ts', content: 'let secret = 1', language: 'typescript' }],
  messages: [{ id: 'm1', role: 'user', parts: [{ id: 'p1', type: 'text', text: 'a private word' }], timestamp: 1 }],
}

type Sent = Partial<WorkContext> & { objective: string }

async function send(subagent: string, work_context: Sent) {
  const alice = await world.agent('alice')
  const worker = await world.agent(subagent)
  let got: WorkContext | undefined
  await using _worker = await worker.onPass((pass) => {
    got = pass.context
    return 'ok'
  })
  const handle = alice.passOver({ subagent, reason: 'x', work_context, timeout_ms: 60_000 })
  const error = await handle.then(
    () => undefined,
    (thrown: unknown) => thrown as { code: string; message: string; context: Record<string, unknown> },
  )
  const journal = await world.world.journal({ originator: 'alice', subagent, id: handle.id })
  const work = journal.state === 'done' && journal.work ? await world.world.body(journal.work.sequence) : undefined
  const parts = (work as { parts?: { name: string; size: number; data?: Uint8Array }[] } | undefined)?.parts
  return { got, error, work, parts }
}

describe('what is sent of a context', () => {
  it('is all of it by default', async () => {
    const { got, parts } = await send('plain', whole)
    expect(got).toMatchObject({ files: [{ path: 'a.ts', content: 'let secret = 1' }], messages: [{ id: 'm1' }] })
    expect(parts?.map(({ name }) => name)).toEqual(['context', 'messages', 'file:a.ts'])
  })

  it('is without the messages where pass_context is off', async () => {
    const { got, parts } = await send('blind', whole)
    expect(got).toMatchObject({ objective: 'look', files: [{ content: 'let secret = 1' }], messages: [] })
    expect(parts?.map(({ name }) => name)).toEqual(['context', 'file:a.ts'])
  })

  it('names the files, without their contents, where pass_files is off', async () => {
    const { got, parts } = await send('fileless', whole)
    expect(got).toMatchObject({ messages: [{ id: 'm1' }], files: [{ path: 'a.ts', language: 'typescript' }] })
    expect(got?.files[0]?.content).toBeUndefined()
    expect(parts?.map(({ name }) => name)).toEqual(['context', 'messages'])
  })

  it('counts only what is let through', async () => {
    const big = { ...whole, files: [{ path: 'big.txt', content: 'x'.repeat(6 * MIB) }] }
    expect((await send('fileless', big)).error).toBeUndefined()
    expect((await send('plain', big)).error).toMatchObject({ code: 'E012' })
  })

  it('of 9 MB goes by reference under a limit of 16 MiB; 20 MB is E012 with both sizes (nats.py#896)', async () => {
    const nine = 'y'.repeat(9_000_000)
    const fits = await send('roomy', { objective: 'look', files: [{ path: 'nine.txt', content: nine }] })
    expect(fits.error).toBeUndefined()
    expect(fits.got?.files[0]?.content === nine).toBe(true)
    const part = fits.parts?.find(({ name }) => name === 'file:nine.txt')
    expect([part?.size, part?.data]).toEqual([9_000_000, undefined])
    const { error, got } = await send('roomy', { objective: 'look', files: [{ path: 'twenty.txt', content: 'z'.repeat(20_000_000) }] })
    expect(got).toBeUndefined()
    expect(error).toMatchObject({ code: 'E012', context: { limit_bytes: 16 * MIB } })
    expect(Number(error?.context.size_bytes)).toBeGreaterThan(20_000_000)
    expect(error?.message).toContain(String(error?.context.size_bytes))
    expect(error?.message).toContain(String(16 * MIB))
    expect(error?.message).toContain('file:twenty.txt')
  })
})

it('nothing is sent to a subagent that may receive no passes: E001 that names it', async () => {
  const { error, got, work } = await send('closed', whole)
  expect(error).toMatchObject({ code: 'E001', context: { agent: 'closed' } })
  expect([got, work]).toEqual([undefined, undefined])
})
