import { openBus } from '@passover/bus'
import type { PassKey, WorkArtifact } from '@passover/schemas'
import type { Handler } from '@passover/sdk'
import { createAgent } from '@passover/sdk/internal'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { clockOf, random } from '../../support/dispatcher/dispatcher.js'
import { until } from '../../support/processes/until.js'

/** What a pass itself says about its return: output_schema and rights, judged at the worker, at the originator and by the audit. */

const SCHEMA = { type: 'object', properties: { output: { type: 'string', pattern: '^score: \\d+$' } }, required: ['output'] }
const policy = {
  subagents: {
    scored: { output_schema: SCHEMA },
    liar: { output_schema: SCHEMA },
    lenient: { output_schema: SCHEMA, validate_output: false },
    wrong: { output_schema: { $ref: 'https://example.com/away.json' } },
    tooled: { tools: ['ls', 'git'] },
    idle: { can_run_tools: false },
  },
}
const ran = (tool_name: string): WorkArtifact => ({
  type: 'tool_result',
  tool_name,
  call_id: 'c',
  input: {},
  output: '',
  status: 'success',
})

let world: AgentWorld
beforeAll(async () => {
  world = await AgentWorld.start({ dispatchers: [{ policy: { version: 1, document: policy } }] })
})
afterAll(async () => {
  await world?.[Symbol.asyncDispose]()
})

const ask = async (subagent: string, handler: Handler) => {
  const alice = await world.agent('alice')
  const worker = await world.agent(subagent)
  await using _worker = await worker.onPass(handler)
  const handle = alice.passOver({ subagent, reason: 'x', work_context: { objective: 'y' } })
  const key: PassKey = { originator: 'alice', subagent, id: handle.id }
  try {
    return { key, output: await handle }
  } catch (error) {
    return { key, error: error as { code: string; message: string; context?: Record<string, unknown> } }
  }
}

const recordOf = async ({ originator, subagent, id }: PassKey) => {
  await world.audits[0]?.settled()
  const answer = await until(
    async () => {
      const said = (await world.world.bus.ask({ op: 'pass', originator, subagent, id })) as { ok: boolean; passes?: { record: object }[] }
      return said.ok ? said.passes?.[0]?.record : undefined
    },
    { what: 'the audit knows it' },
  )
  return answer as { error?: { code: string; message: string }; entry?: { status: string } }
}

const returned = async (key: PassKey) => (await world.world.end(key)) as { output?: unknown; error?: unknown }

describe('an output_schema', () => {
  it('lets through what fits', async () => {
    const { key, output, error } = await ask('scored', () => 'score: 7')
    expect(error).toBeUndefined()
    expect(output?.output).toBe('score: 7')
    expect((await recordOf(key)).error).toBeUndefined()
  })

  it('keeps the worker from sending what does not: E021 with the raw output, for caller and audit', async () => {
    const { key, error } = await ask('scored', () => 'no score')
    expect(error).toMatchObject({ code: 'E021', message: expect.stringContaining('/output: must match pattern') })
    expect(error?.context).toMatchObject({ raw_output: 'no score', field: 'output_schema' })
    expect(await returned(key)).toMatchObject({ error: { code: 'E021' } })
    expect((await returned(key)).output).toBeUndefined()
    expect(await recordOf(key)).toMatchObject({ error: { code: 'E021' } })
  })

  it('is applied by return() too, before anything is sent', async () => {
    const { output } = await ask('scored', async (pass) => {
      await expect(pass.return('nothing')).rejects.toMatchObject({ code: 'E021' })
      await pass.return('score: 1')
    })
    expect(output?.output).toBe('score: 1')
  })

  it('does not bind what failed', async () => {
    const { output } = await ask('scored', () => ({ status: 'failed', completion_reason: 'no way' }))
    expect(output).toMatchObject({ status: 'failed', completion_reason: 'no way' })
  })

  it('is applied by originator and audit where the worker did not', async () => {
    const alice = await world.agent('alice')
    await using bus = await openBus({ servers: world.world.nats.servers, identity: 'liar' })
    await using liar = createAgent({ bus, clock: clockOf(bus), random }, { directory: '/', sessionId: 's' })
    await using _worker = await liar.onPass(() => 'no score')
    for (let n = 0; n < 2; n++) {
      const handle = alice.passOver({ subagent: 'liar', reason: 'x', work_context: { objective: 'y' } })
      const error = await handle.then(
        () => undefined,
        (thrown: unknown) => thrown as { code: string; context: Record<string, unknown> },
      )
      expect(error).toMatchObject({ code: 'E021', context: { field: 'output_schema', raw_output: { output: 'no score' } } })
      const key = { originator: 'alice', subagent: 'liar', id: handle.id }
      expect((await returned(key)).output).toMatchObject({ output: 'no score' })
      expect(await recordOf(key)).toMatchObject({ error: { code: 'E021', message: expect.stringContaining('output_schema') } })
    }
  })

  it('is not applied where validate_output is off', async () => {
    const { key, output } = await ask('lenient', () => 'no score')
    expect(output?.output).toBe('no score')
    expect((await recordOf(key)).error).toBeUndefined()
  })

  it('that does not compile lets nothing through, and says why', async () => {
    const { error } = await ask('wrong', () => 'fine')
    expect(error).toMatchObject({ code: 'E021', message: expect.stringContaining('https://example.com/away.json') })
  })
})

describe('rights', () => {
  it('name the tools that may run: another is E013 with its name, and the output is kept', async () => {
    const good = await ask('tooled', (pass) => {
      expect([pass.may('ls'), pass.may('rm')]).toEqual([true, false])
      pass.requireTool('git')
      return { artifacts: [ran('ls')], output: 'done' }
    })
    expect(good.output?.artifacts).toHaveLength(1)
    const { key, error } = await ask('tooled', () => ({ artifacts: [ran('ls'), ran('rm')], output: 'done' }))
    expect(error).toMatchObject({ code: 'E013', context: { field: 'tools', tool: 'rm', raw_output: { output: 'done' } } })
    expect(await recordOf(key)).toMatchObject({ error: { code: 'E013' } })
  })

  it('refuse a tool to a handler that asks: E013 as it says', async () => {
    const { error } = await ask('idle', (pass) => {
      pass.requireTool('ls')
      return 'never'
    })
    expect(error).toMatchObject({ code: 'E013', context: { field: 'can_run_tools', tool: 'ls' } })
  })

  it('that a child broke are told as the child’s: the handler that lets it through ends with E011', async () => {
    const idle = await world.agent('idle')
    await using _idle = await idle.onPass((pass) => {
      pass.requireTool('ls')
      return 'never'
    })
    const { error } = await ask(
      'plain',
      async (pass) => (await pass.passOver({ subagent: 'idle', reason: 'x', work_context: { objective: 'y' } })).output,
    )
    expect(error).toMatchObject({ code: 'E011', context: { cause: { code: 'E013' } } })
  })

  it('are judged by originator and audit where the worker lies about them', async () => {
    const { key, error } = await ask('idle', (pass) => {
      Object.assign(pass.rights, { can_run_tools: true })
      return { artifacts: [ran('rm')], output: 'done' }
    })
    expect((await returned(key)).output).toMatchObject({ output: 'done' })
    expect(error).toMatchObject({ code: 'E013', context: { field: 'can_run_tools', tool: 'rm', raw_output: { output: 'done' } } })
    expect(await recordOf(key)).toMatchObject({ error: { code: 'E013' } })
  })
})
