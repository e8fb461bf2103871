import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { Subjects } from '@passover/bus'
import { PassOverError } from '@passover/core'
import { agentRecord } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { registerAgent } from '../../support/builders/register.js'
import { CONTEXT, World } from '../../support/dispatcher/dispatcher.js'
import { type PermittedAgents, permittedAgents } from '../../support/dispatcher/permitted-agents.js'
import { busOn } from '../../support/fixtures/bus.js'
import { until } from '../../support/processes/until.js'
import { natsFixture } from '../../support/servers/nats.js'
import type { Probe } from '../../support/servers/permitted.js'

const MIB = 1024 ** 2
const CHUNK = randomBytes(900_000)

/** Stores parts until the server refuses one. Gives how many bytes were stored, and the refusal. */
async function fillBucket(
  probe: Probe,
  agent: string,
  most: number,
): Promise<{ stored: number; refused: { err_code: number } | undefined }> {
  for (let stored = 0, n = 0; ; n++) {
    const answer = await probe.nc.request(`${new Subjects().parts(agent, 'C')}.junk${n}.0`, CHUNK, { timeout: 5_000 })
    const { error } = JSON.parse(answer.string()) as { error?: { err_code: number } }
    if (error || stored > most) return { stored, refused: error }
    stored += CHUNK.length
  }
}

describe('a server of 200 MiB', () => {
  let world: PermittedAgents<'alice' | 'scout' | 'mallory'>
  beforeAll(async () => {
    world = await permittedAgents({
      names: ['alice', 'scout', 'mallory'],
      config: { max_file_bytes: 200 * MIB },
      topology: { max_bytes: 64 * MIB },
    })
  })
  afterAll(() => world?.[Symbol.asyncDispose]())

  it('stores the return of an admitted pass after another agent stored all that it may', async () => {
    const { agents } = world
    const [running, gate] = [new AbortController(), new AbortController()]
    await using _worker = await agents.scout.onPass(async () => {
      running.abort()
      await once(gate.signal, 'abort')
      return 'done'
    })
    const result = agents.alice.passOver({ subagent: 'scout', reason: 'x', work_context: { objective: 'o' } }).result()
    await until(() => running.signal.aborted, { what: 'the run' })
    await using probe = await world.probe('mallory')
    const { stored, refused } = await fillBucket(probe, 'mallory', 100 * MIB)
    expect(stored).toBeLessThanOrEqual(8 * MIB)
    expect(refused).toMatchObject({ err_code: 10077 })
    gate.abort()
    expect((await result).output).toBe('done')
  })

  it('answers E014 that names the bucket, its use and how it is raised, and follows the raised limit', async () => {
    const { agents, person } = world
    const pass = (bytes: number) =>
      agents.alice.passOver({
        subagent: 'scout',
        reason: 'x',
        work_context: { objective: 'o', files: [{ path: 'a', content: randomBytes(bytes / 2).toString('hex') }] },
      })
    await using _worker = await agents.scout.onPass(() => Promise.resolve('done'))
    expect((await pass(4 * MIB).result()).output).toBe('done')
    const error: unknown = await pass(4.5 * MIB)
      .result()
      .catch((failure: unknown) => failure)
    if (!(error instanceof PassOverError)) throw new Error(`not refused: ${String(error)}`)
    expect(error).toMatchObject({
      code: 'E014',
      recoverable: true,
      context: { owner: 'alice', max_bytes: 8 * MIB, retry_after_ms: 60_000 },
    })
    expect(error.message).toMatch(/the parts bucket of alice is full .*; \d+\.\d of 8\.0 MiB are used/)
    expect(error.context?.mend).toContain('passover agents set alice --parts-bytes')
    const registry = await person.table('agents', agentRecord)
    const entry = await registry.get('alice')
    if (!entry) throw new Error('alice is registered')
    await registerAgent(person, { ...entry.value, parts_bytes: 20 * MIB })
    await until(
      async () =>
        (await pass(4.5 * MIB)
          .result()
          .catch(() => undefined)) !== undefined,
      { what: 'the raised limit' },
    )
  })

  it('returns E014 where an output does not fit the worker’s bucket', async () => {
    const { agents } = world
    await using _worker = await agents.mallory.onPass(() => Promise.resolve({ output: 'x'.repeat(MIB) }))
    const result = agents.alice.passOver({ subagent: 'mallory', reason: 'x', work_context: { objective: 'o' } }).result()
    await expect(result).rejects.toMatchObject({ code: 'E014', message: expect.stringContaining('parts bucket of mallory is full') })
  })
})

describe('byte limits', () => {
  it('are set on every stream and fit the storage of the account together', async () => {
    await using nats = await natsFixture({ config: { max_file_bytes: 2_048 * MIB } })
    await using bus = await busOn(nats)
    await bus.ensureTopology({ storage_bytes: 2_000 * MIB })
    await bus.ensureAgent('audit', { subagent: true, max_attempts: 3, lease_ms: 5_000 })
    const nc = await connect({ servers: nats.servers })
    const streams = await (await jetstreamManager(nc)).streams.list().next()
    await nc.close()
    const limits = Object.fromEntries(streams.map(({ config }) => [config.name, config.max_bytes]))
    expect(Object.entries(limits).filter(([, bytes]) => bytes <= 0)).toEqual([])
    expect(limits).toMatchObject({ PASSOVER: 800 * MIB, OBJ_archive: 400 * MIB, OBJ_parts_audit: 12.5 * MIB })
    expect(Object.values(limits).reduce((sum, bytes) => sum + bytes, 0)).toBeLessThan(2_000 * MIB)
  })

  it('are given to an installation of an earlier version, and leave room above what it holds', async () => {
    await using nats = await natsFixture({ config: { max_file_bytes: 1_024 * MIB } })
    await using bus = await busOn(nats)
    await bus.ensureTopology({ max_bytes: -1 })
    await bus.ensureAgent('audit', { subagent: true, max_attempts: 3, lease_ms: 5_000 })
    const nc = await connect({ servers: nats.servers })
    const jsm = await jetstreamManager(nc)
    const limitOf = async (name: string) => (await jsm.streams.info(name)).config.max_bytes
    await jsm.streams.update('OBJ_parts_audit', { max_bytes: -1 })
    expect(await limitOf('KV_inbox')).toBe(-1)
    await nc.request('$KV.inbox.x', CHUNK)
    for (let n = 0; n < 8; n++) await nc.request(`$KV.inbox.${n}`, CHUNK)
    await bus.ensureTopology()
    await bus.ensureAgent('audit', { subagent: true, max_attempts: 3, lease_ms: 5_000 })
    expect(await limitOf('PASSOVER')).toBe(256 * MIB)
    expect(await limitOf('OBJ_archive')).toBe(128 * MIB)
    expect(await limitOf('OBJ_parts_audit')).toBe(8 * MIB)
    expect(await limitOf('KV_inbox')).toBeGreaterThan(2 * 9 * CHUNK.length)
    await nc.close()
  })

  it('are raised, never lowered, where the storage is set at a later start', async () => {
    await using nats = await natsFixture()
    await using bus = await busOn(nats)
    const limits = async () => {
      const { stream, buckets } = await bus.inspect()
      return { stream: stream?.max_bytes, archive: buckets.find(({ name, kind }) => name === 'archive' && kind === 'object')?.max_bytes }
    }
    const inTurn = []
    for (const storage_bytes of [500 * MIB, 2_000 * MIB, 250 * MIB]) {
      await bus.ensureTopology({ storage_bytes })
      inTurn.push(await limits())
    }
    expect(inTurn).toEqual([
      { stream: 200 * MIB, archive: 100 * MIB },
      { stream: 800 * MIB, archive: 400 * MIB },
      { stream: 800 * MIB, archive: 400 * MIB },
    ])
  })

  it('hold for the bucket that a dispatcher makes for a request with large inline parts', async () => {
    await using world = await World.start({ dispatchers: [{ parts_bytes: 2 * MIB }] })
    await world.agent('audit')
    const work_context = { ...CONTEXT, files: [{ path: 'big.txt', content: 'r'.repeat(300_001) }] }
    await world.admitted(await world.ask({ form: 'json', from: 'shell', work_context }))
    const nc = await connect({ servers: world.nats.servers })
    const { config } = await (await jetstreamManager(nc)).streams.info('OBJ_parts_shell')
    await nc.close()
    expect(config.max_bytes).toBe(2 * MIB)
  })
})
