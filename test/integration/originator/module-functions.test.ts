import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect, disconnect, onPass, passOver, passOverWithRetry, returnFromPassOver } from '@passover/sdk'
import { findProjectServer, ownFolder, writeServerFile } from '@passover/sdk/internal/project'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { AgentWorld } from '../../support/dispatcher/agents.js'

let world: AgentWorld
beforeAll(async () => {
  world = await AgentWorld.start()
})
afterAll(async () => {
  await world?.[Symbol.asyncDispose]()
})
afterEach(async () => {
  await disconnect()
  vi.unstubAllEnvs()
})

const work_context = { objective: 'do it' }

describe('the functions of an agent, without a connection in hand', () => {
  it('pass over, work, return early and pass on by the environment alone', async () => {
    vi.stubEnv('NATS_URL', world.world.nats.url)
    vi.stubEnv('PASSOVER_AGENT', 'alice')
    await using _scout = await onPass('scout', async (pass) => {
      const child = await passOver({ subagent: 'leaf', reason: 'deeper', work_context })
      await returnFromPassOver(`${pass.originator} ${child.output}`)
    })
    await using _leaf = await onPass('leaf', (pass) => pass.ancestors.join('/'))
    expect((await passOver({ subagent: 'scout', reason: 'x', work_context })).output).toBe('alice alice/scout')
    expect((await passOverWithRetry({ subagent: 'leaf', reason: 'x', work_context })).output).toBe('alice')
  })

  it('say what is missing', async () => {
    vi.stubEnv('PASSOVER_AGENT', '')
    await expect(passOver({ subagent: 'leaf', reason: 'x', work_context })).rejects.toMatchObject({ code: 'E005' })
    await expect(returnFromPassOver('x')).rejects.toMatchObject({ code: 'E005' })
  })
})

describe('connect', () => {
  it('finds the project`s own server upward from the working directory', async () => {
    const root = await mkdtemp(join(tmpdir(), 'project-'))
    try {
      await mkdir(join(root, '.git'))
      await mkdir(join(root, 'a', 'b'), { recursive: true })
      const made = ownFolder(root)
      if (!made.ok) throw new Error(made.fault.why)
      writeServerFile(made.folder, { url: world.world.nats.url, user: '', password: '', pid: 1, started_at: 1 })
      expect(findProjectServer(join(root, 'a', 'b'))?.file.url).toBe(world.world.nats.url)
      await using alice = await connect({ agent: 'alice', directory: join(root, 'a', 'b') })
      expect(alice.connected).toBe(true)
      await writeFile(join(root, '.passover', 'server.json'), 'half a fi')
      expect(() => findProjectServer(join(root, 'a', 'b'))).toThrow(expect.objectContaining({ code: 'E030' }))
    } finally {
      await rm(root, { recursive: true })
    }
  })
})
