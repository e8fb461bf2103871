import { type Bus, openBus } from '@passover/bus'
import { collectEvidence, verifyLive } from '@passover/cli'
import { findPass, readResult } from '@passover/operator'
import type { WorkArtifact } from '@passover/schemas'
import type { Agent } from '@passover/sdk'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { until } from '../../support/processes/until.js'

const RULES = { id_window_ms: 3_600_000 }

let world: AgentWorld
let ops: Bus
let alice: Agent

beforeAll(async () => {
  world = await AgentWorld.start({ dispatchers: [{}], audit: { open: true } })
  ops = await openBus({ servers: world.world.nats.servers, identity: 'ops', onError: () => undefined })
  alice = await world.agent('alice')
})
afterAll(async () => {
  await ops?.[Symbol.asyncDispose]()
  await world?.[Symbol.asyncDispose]()
})

const asking = (subagent: string) => ({ subagent, reason: 'r', work_context: { objective: 'o' } })

const change = (n: number): WorkArtifact => ({
  type: 'file_modification',
  path: `large-${n}.txt`,
  old_content: '',
  new_content: String(n).repeat(200_000),
  reason: 'r',
  confidence: 'high',
})
const TEXT = `it begins so ${'x'.repeat(1_100_000)}`

/** As people see the pass when the audit has read it. */
const shown = async (id: string) => {
  await world.audits[0]?.settled()
  const pass = await findPass(ops, { id })
  return { entry: pass.record?.entry, result: await readResult(ops, pass) }
}

/** What travels in the messages is a fraction of this (docs/architecture/protocol.md#payloads). */
describe('an output larger than a message', () => {
  const outputs: [string, { output?: string; artifacts?: WorkArtifact[] }, { artifacts: number; parts: number; summary: string }][] = [
    [
      'of many artifacts of which none is large',
      { artifacts: [0, 1, 2, 3, 4, 5, 6, 7].map(change) },
      { artifacts: 8, parts: 6, summary: '' },
    ],
    ['of text', { output: TEXT }, { artifacts: 0, parts: 1, summary: TEXT.slice(0, 2_000) }],
    ['of both', { output: TEXT, artifacts: [change(1)] }, { artifacts: 1, parts: 1, summary: TEXT.slice(0, 2_000) }],
  ]

  it.each(outputs)('%s comes back whole, and whoever reads it later reads it whole', async (what, whole, expected) => {
    const subagent = `large-${outputs.findIndex(([name]) => name === what)}`
    const worker = await world.agent(subagent)
    await worker.onPass(() => whole)
    const handle = alice.passOver(asking(subagent))
    const output = await handle
    expect(output).toMatchObject(whole)
    const { entry, result } = await shown(handle.id)
    expect(entry).toMatchObject({ summary: expected.summary, artifacts_count: expected.artifacts })
    expect(result).toMatchObject({ output: whole })
    const { parts } = await collectEvidence(ops, { id: handle.id })
    expect(parts.size).toBe(expected.parts)
  })

  it('is verified by its parts', async () => {
    const { ok, shown, parts } = await verifyLive(ops, RULES)
    expect({ ok, shown, parts }).toEqual({ ok: true, shown: [], parts: { whole: 8, gone: 0, elsewhere: 0 } })
  })

  it('in what cannot travel apart is E014 with what was given, and nobody does the work again', async () => {
    let asked = 0
    const worker = await world.agent('endless')
    const findings = Array.from({ length: 20 }, (_, n) => `finding ${n} ${'f'.repeat(60_000)}`)
    await worker.onPass(() => {
      asked++
      return { summary: { findings } }
    })
    await expect(alice.passOverWithRetry(asking('endless'), { retry_delay_ms: 3_600_000 })).rejects.toMatchObject({
      code: 'E014',
      recoverable: false,
      context: { mend: expect.stringContaining('shorter summary'), raw_output: expect.stringContaining('finding 0') },
    })
    expect(asked).toBe(1)
  })

  it('of more text than any may have is so too, before it is sent', async () => {
    const worker = await world.agent('endless-text')
    await worker.onPass(() => 'x'.repeat(16 * 1024 * 1024 + 1))
    await expect(alice.passOver(asking('endless-text')).result()).rejects.toMatchObject({
      code: 'E014',
      recoverable: false,
      message: expect.stringContaining('16777217 characters'),
    })
  })
})

describe('while the server restarts', () => {
  /** Stands still at a point until it is told to go on. */
  function standAt(stand: string) {
    let go = (): void => undefined
    const gone = new Promise<void>((resolve) => {
      go = resolve
    })
    const faults = {
      reached: false,
      go: () => go(),
      async at(point: string) {
        if (point !== stand) return
        faults.reached = true
        await gone
      },
    }
    return faults
  }
  const large = { objective: 'o', files: [{ path: 'large.txt', content: 'x'.repeat(1_000_000) }] }

  // Each fails with the first answer that is not got ending the pass: `isTransient` in packages/sdk/src/handler/load-context.ts, the tries of packages/sdk/src/messages/upload-parts.ts.
  it('a context is read until it is there, by the same attempt', async () => {
    const faults = standAt('worker:before-run')
    const reader = await world.agent('reader', faults)
    const read: (number | undefined)[] = []
    await using _worker = await reader.onPass((pass) => {
      read.push(pass.context.files[0]?.content?.length)
      return `attempt ${pass.attempt}`
    })
    const handle = alice.passOver({ subagent: 'reader', reason: 'r', work_context: large, timeout_ms: 60_000 })
    await until(() => faults.reached, { what: 'it is about to read' })
    await world.world.nats.node.kill()
    const bus = world.buses.get(reader)
    await until(() => bus?.connected === false, { what: 'its worker is cut off' })
    faults.go()
    await world.world.nats.node.restart()
    expect((await handle).output).toBe('attempt 1')
    expect(read).toEqual([1_000_000])
  })

  it('a large output is stored when the server is back, and the work is not done twice', async () => {
    const author = await world.agent('author')
    let finish = (): void => undefined
    const finishing = new Promise<void>((resolve) => {
      finish = resolve
    })
    let runs = 0
    await using _worker = await author.onPass(async () => {
      runs += 1
      await finishing
      return { artifacts: [0, 1, 2, 3, 4, 5, 6, 7].map(change) }
    })
    const handle = alice.passOver({ ...asking('author'), timeout_ms: 60_000 })
    await until(() => runs === 1, { what: 'it runs' })
    await world.world.nats.node.kill()
    const bus = world.buses.get(author)
    await until(() => bus?.connected === false, { what: 'its worker is cut off' })
    const upload = bus && vi.spyOn(bus.parts, 'upload')
    finish()
    await until(() => upload?.mock.calls.length === 5, { what: 'it has tried more often than what is refused' })
    await world.world.nats.node.restart()
    expect((await handle).artifacts).toHaveLength(8)
    expect(runs).toBe(1)
  })
})
