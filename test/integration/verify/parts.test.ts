import { generateKeyPairSync } from 'node:crypto'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect as connectClient } from '@nats-io/transport-node'
import { folderArchive } from '@passover/archive'
import { type Bus, encode, openBus, PolicyStore } from '@passover/bus'
import { collectEvidence, openEvidence, sealEvidence, verifyArchive, verifyLive } from '@passover/cli'
import { policyDigest } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { publishUpon } from '../../support/dispatcher/policies.js'
import { until } from '../../support/processes/until.js'

const RULES = { id_window_ms: 3_600_000 }
const LARGE = 'x'.repeat(300_000)

let world: AgentWorld
let ops: Bus
let folder: string
let id: string
/** Passes this over with a file. */
let ask: (content: string) => { id: string; result(): Promise<unknown> }

/** One pass whose context holds a large file, and whose output a large artifact: both travel as references (docs/architecture/protocol.md#payloads). */
beforeAll(async () => {
  world = await AgentWorld.start({ dispatchers: [{}], audit: { open: true } })
  folder = await mkdtemp(join(tmpdir(), 'parts-'))
  ops = await openBus({ servers: world.world.nats.servers, identity: 'ops', onError: () => undefined })
  const worker = await world.agent('audit')
  const change = {
    type: 'file_modification',
    path: 'large.txt',
    old_content: '',
    new_content: LARGE,
    reason: 'r',
    confidence: 'high',
  } as const
  let asked = 0
  await worker.onPass(() => (asked++ === 0 ? { artifacts: [change] } : 'done'))
  const alice = await world.agent('alice')
  const metadata = { size_bytes: LARGE.length, last_modified: 1, is_binary: false }
  ask = (content) => {
    const files = [{ path: 'large.txt', content, metadata }]
    return alice.passOver({ subagent: 'audit', reason: 'large', work_context: { objective: 'look', files } })
  }
  const handle = ask(`${LARGE}!`)
  id = handle.id
  await handle.result()
})
afterAll(async () => {
  await ops?.[Symbol.asyncDispose]()
  await world?.[Symbol.asyncDispose]()
  await rm(folder, { recursive: true, force: true })
})

/** Replaces the first chunk of every part that an agent uploaded. Only somebody who may purge its bucket can. */
async function spoil(owner: string): Promise<void> {
  const nc = await connectClient({ servers: world.world.nats.servers })
  const { streams } = await jetstreamManager(nc)
  const { state } = await streams.info(`OBJ_${ops.subjects.partsBucket(owner)}`, { subjects_filter: '$O.*.*.C.>' })
  for (const subject of Object.keys(state.subjects ?? {})) {
    await streams.purge(`OBJ_${ops.subjects.partsBucket(owner)}`, { filter: subject })
    nc.publish(subject, Buffer.alloc(100, 7))
  }
  await nc.flush()
  await nc.close()
}

describe('parts that messages only name', () => {
  it('are read again and held against their hashes, from the installation and from what was saved of it', async () => {
    const { ok, shown, parts } = await verifyLive(ops, { ...RULES, save: folder })
    expect({ ok, shown, parts }).toEqual({ ok: true, shown: [], parts: { whole: 2, gone: 0, elsewhere: 0 } })
    const saved = (await readdir(folder)).filter((name) => name.endsWith('.part'))
    expect(saved).toHaveLength(2)
    const look = () => verifyArchive(folderArchive(folder), RULES)
    expect(await look()).toMatchObject({ ok: true, parts: { whole: 2, elsewhere: 0 } })
    await writeFile(join(folder, saved[0] ?? ''), 'something else')
    expect(await look()).toMatchObject({ ok: false, first: { rule: 'parts', what: expect.stringContaining('does not match its hash') } })
    await rm(join(folder, saved[0] ?? ''))
    expect(await look()).toMatchObject({ ok: true, parts: { whole: 1, elsewhere: 1 } })
  })

  it('come along in a bundle of evidence, which tells what was touched of them', async () => {
    const evidence = await collectEvidence(ops, { id })
    expect([...evidence.parts.values()].map(({ length }) => length > LARGE.length)).toEqual([true, true])
    const { privateKey } = generateKeyPairSync('ed25519')
    const bundle = sealEvidence(evidence, { key: privateKey, made_by: 'ops', made_at: 1 })
    const open = (change: (copy: typeof bundle) => void) => {
      const copy = JSON.parse(JSON.stringify(bundle))
      change(copy)
      return openEvidence(JSON.stringify(copy))
    }
    expect(open(() => undefined)).toMatchObject({ ok: true })
    expect(open(({ parts }) => Object.assign(parts?.[0] ?? {}, { data: 'AAAA' }))).toMatchObject({
      what: expect.stringMatching(/^part \w+… was changed/),
    })
    expect(open(({ parts }) => parts?.pop())).toMatchObject({ what: expect.stringMatching(/^part \w+… is missing/) })
    expect(open(({ parts }) => parts?.push({ hash: 'a'.repeat(64), data: '' }))).toMatchObject({
      what: expect.stringContaining('was added'),
    })
    // A bundle of before brought none, and said nothing of it.
    const { parts: _, ...rest } = bundle
    const { parts: __, ...seal } = bundle.seal
    expect(openEvidence(JSON.stringify({ ...rest, seal }))).toMatchObject({ what: expect.stringContaining('signature') })
  })

  it('that differ or are missing are named with their pass; what is older than has to be kept may be gone, and is counted', async () => {
    await spoil('audit')
    const differs = await verifyLive(ops, RULES)
    expect(differs.shown).toEqual([
      expect.objectContaining({
        rule: 'parts',
        pass: expect.stringContaining(id),
        what: expect.stringMatching(/refers to a part "artifact:0" of audit that does not match/),
      }),
    ])
    const evidence = await collectEvidence(ops, { id })
    expect(evidence.parts.size).toBe(1)
    const [hash = ''] = evidence.parts.keys()
    await ops.parts.remove('alice', hash)
    const missing = await verifyLive(ops, RULES)
    expect(missing.faults).toBe(2)
    expect(missing.first?.what).toBe('refers to a part "file:large.txt" of alice that is missing')
    const maria = await openBus({ servers: world.world.nats.servers, identity: 'maria', onError: () => undefined })
    await publishUpon(await PolicyStore.open(maria), { document: { audit: { retention_days: 1e-7 } } })
    await maria[Symbol.asyncDispose]()
    // Thirty days were promised when it was stored: a policy of later excuses nothing.
    expect(await verifyLive(ops, RULES)).toMatchObject({ faults: 2, parts: { gone: 0 } })
    const later = ask(`${LARGE}?`)
    await later.result()
    const [own = ''] = (await collectEvidence(ops, { id: later.id })).parts.keys()
    await ops.parts.remove('alice', own)
    await until(async () => (await verifyLive(ops, RULES)).parts?.gone === 1, { what: 'it is older than what was promised then' })
    expect((await verifyLive(ops, RULES)).faults).toBe(2)
  })

  // The last one: nobody knows any more what was promised before.
  it('that are missing are remarks where a version of the policy is not known, which is a fault itself', async () => {
    const document = {}
    const body = { v: 1, version: 9, base: 8, document, digest: policyDigest(document) }
    const outcome = await ops.publish({ subject: ops.subjects.policy('ops'), data: encode(body) })
    expect(outcome.kind).toBe('stored')
    const { shown, remarked, parts } = await verifyLive(ops, RULES)
    expect(shown.map(({ rule, what }) => [rule, what])).toEqual([
      ['policy', 'policy version 9 comes after version 1'],
      ['parts', expect.stringContaining('that does not match its hash')],
    ])
    expect(remarked.map(({ rule, what }) => [rule, what])).toEqual([
      ['parts', expect.stringMatching(/^2 parts of alice are missing; its retention is unknown/)],
    ])
    expect(parts).toMatchObject({ gone: 2 })
  })
})
