import { generateKeyPairSync } from 'node:crypto'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect as connectClient } from '@nats-io/transport-node'
import { type Bus, decode, encode, openBus, PolicyStore } from '@passover/bus'
import { collectEvidence, openEvidence, replayInto, sealEvidence, verifyLive, whatIfLive } from '@passover/cli'
import { findPass } from '@passover/operator'
import { HEADER, passOverPreferences } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { randomOf } from '../../support/attacks/tampered-archive.js'
import { registerAgent } from '../../support/builders/register.js'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { until } from '../../support/processes/until.js'

const RULES = { id_window_ms: 3_600_000 }
const work_context = { objective: 'do it' }

let world: AgentWorld
let ops: Bus
const ids: Record<string, string> = {}

/** Registers as a person does: the event first, then the record. */
async function register(bus: Bus, name: string): Promise<void> {
  const record = { name, roles: { originates: 'always' as const, subagent: true }, registered_by: 'ops', updated_at: bus.now() }
  await registerAgent(bus, record)
  await bus.ensureAgent(name, { subagent: true, max_attempts: 3, lease_ms: 5_000 })
}

/** Passes of every kind, as a real installation stores them. */
beforeAll(async () => {
  world = await AgentWorld.start({ audit: { people: ['ops'] } })
  ops = await openBus({ servers: world.world.nats.servers, identity: 'ops', onError: () => undefined })
  for (const name of ['alice', 'scout', 'deep', 'slow', 'guarded', 'closed']) await register(ops, name)
  const document = passOverPreferences.parse({
    pairs: { 'alice->guarded': { hold_before_dispatch: true }, 'alice->closed': { enabled: false, reason: 'on leave' } },
  })
  await (await PolicyStore.open(ops)).publish({ document, base: 0 })
  const [alice, scout, deep, slow, guarded] = await Promise.all(
    ['alice', 'scout', 'deep', 'slow', 'guarded'].map((name) => world.agent(name)),
  )
  if (!alice || !scout || !deep || !slow || !guarded) throw new Error('no agents')
  await scout.onPass(async (pass) => {
    await pass.passOver({ subagent: 'deep', reason: 'look deeper', work_context }).result()
    return 'was below'
  })
  await deep.onPass(async (pass) => {
    await pass
      .passOver({ subagent: 'scout', reason: 'a loop', work_context })
      .result()
      .catch(() => undefined)
    return 'deep down'
  })
  await slow.onPass((pass) => new Promise<string>((_, end) => pass.signal.addEventListener('abort', () => end(new Error('aborted')))))
  await guarded.onPass(() => ({ artifacts: [] }))
  const asked = async (name: string, more: Parameters<typeof alice.passOver>[0]) => {
    const handle = alice.passOver(more)
    ids[name] = handle.id
    await handle.result().catch(() => undefined)
  }
  await until(
    async () => {
      await asked('closed', { subagent: 'closed', reason: 'is it open?', work_context })
      return (await findPass(ops, { id: ids.closed ?? '' }, { history: true })).status === 'refused'
    },
    { what: 'the policy is in force' },
  )
  await asked('chain', { subagent: 'scout', reason: 'go down', work_context })
  await asked('late', { subagent: 'slow', reason: 'too slow', timeout_ms: 700, work_context })
  const cancelled = alice.passOver({ subagent: 'slow', reason: 'cancelled', work_context })
  await cancelled.stored
  await cancelled.cancel('not needed')
  await cancelled.result().catch(() => undefined)
  const held = alice.passOver({ subagent: 'guarded', reason: 'ask first', work_context })
  ids.held = held.id
  await held.stored
  await until(async () => (await findPass(ops, { id: held.id }, {})).status === 'held', { what: 'it is held' })
  const pass = await findPass(ops, { id: held.id }, {})
  const digest = String(pass.digest)
  await ops.publish({
    subject: ops.subjects.decision(pass.key, 'dispatch', 'ops'),
    headers: { [HEADER.verdict]: 'approve', [HEADER.digest]: digest },
    data: encode({ v: 1, verdict: 'approve', digest }),
  })
  await held.result()
})
afterAll(async () => {
  await ops?.[Symbol.asyncDispose]()
  await world?.[Symbol.asyncDispose]()
})

describe('what a real installation stored', () => {
  it('holds together by all the rules, and was decided by the policy that it names', async () => {
    const { shown, counts, ok } = await verifyLive(ops, RULES)
    expect({ shown, ok }).toEqual({ shown: [], ok: true })
    expect(counts.passes).toBeGreaterThanOrEqual(7)
    expect(counts.recomputed).toBeGreaterThanOrEqual(5)
    expect(counts.policies).toBe(1)
  })

  it('is told with all that a pass hangs on in a bundle that names what was touched of it', async () => {
    const found = await findPass(ops, { id: ids.chain ?? '' }, { history: true })
    const evidence = await collectEvidence(ops, { id: ids.chain ?? '' })
    expect(evidence.pass).toEqual(found.key)
    const { privateKey } = generateKeyPairSync('ed25519')
    const bundle = sealEvidence(evidence, { key: privateKey, made_by: 'ops', made_at: 1 })
    const open = (change: (copy: typeof bundle) => void) => {
      const copy = JSON.parse(JSON.stringify(bundle))
      change(copy)
      return openEvidence(JSON.stringify(copy))
    }
    expect(open(() => undefined)).toMatchObject({ ok: true })
    const [first, second] = bundle.entries
    expect(open(({ entries }) => Object.assign(entries[1] ?? {}, { time: 5 }))).toEqual({
      ok: false,
      what: `entry ${second?.sequence} (${second?.subject}) was changed`,
    })
    expect(open(({ entries }) => entries.shift())).toEqual({ ok: false, what: `entry ${first?.sequence} is missing` })
    expect(open(({ entries }) => entries.reverse())).toMatchObject({ what: expect.stringContaining('out of order') })
    expect(open(({ entries }) => entries.splice(1, 0, entries[0]!))).toMatchObject({ what: expect.stringContaining('duplicated') })
    expect(open(({ entries }) => entries.push({ ...entries[0]!, sequence: 999_999 }))).toMatchObject({
      what: expect.stringContaining('was added'),
    })
    expect(open(({ seal }) => Object.assign(seal, { made_by: 'mallory' }))).toMatchObject({ what: expect.stringContaining('signature') })
    expect(open((copy) => Object.assign(copy, { record: { status: 'better' } }))).toMatchObject({ what: 'the record was changed' })
    const infinite = JSON.stringify({ ...bundle, record: { ended_at: 0 } }).replace('"ended_at":0', '"ended_at":1e999')
    expect(openEvidence(infinite)).toEqual({ ok: false, what: 'the record was changed' })
    // What is not signed does not stand beside what is: nobody would see that it is of no weight.
    expect(open(({ entries }) => Object.assign(entries[0] ?? {}, { said: 'approved by ann' }))).toMatchObject({ ok: false })
    expect(open(({ seal }) => Object.assign(seal, { approved_by: 'ann' }))).toMatchObject({ ok: false })
    expect(open(({ segments }) => segments.push({ k: 0, digests: '' }))).toMatchObject({ ok: false })
    for (const [said, twice] of [
      ['{"seal":{', '{"seal":{"made_by":"ann",'],
      ['"record":{', '"record":{"status":"better","status":"none"},"record":{'],
    ] as const)
      expect(openEvidence(JSON.stringify(bundle).replace(said, twice))).toEqual({ ok: false, what: expect.stringContaining('twice') })
    const { publicKey } = generateKeyPairSync('x25519')
    const other = publicKey.export({ type: 'spki', format: 'pem' })
    expect(open(({ seal }) => Object.assign(seal, { public_key: other }))).toEqual({
      ok: false,
      what: 'its public key is not an Ed25519 key',
    })
    expect(openEvidence('{}')).toMatchObject({ ok: false })
    // Whichever byte of the file is another: it is no bundle, or says what was touched.
    const text = JSON.stringify(bundle)
    const random = randomOf(5)
    for (let n = 0; n < 300; n++) {
      const at = Math.floor(random() * text.length)
      const other = String.fromCharCode(((text.charCodeAt(at) + 1 + Math.floor(random() * 93)) % 95) + 32)
      if (other === text[at]) continue
      const opened = openEvidence(text.slice(0, at) + other + text.slice(at + 1))
      expect({ at, around: text.slice(at - 20, at + 20), other, ok: opened.ok }).toMatchObject({ ok: false })
    }
  })

  it('is decided about by another policy without changing anything', async () => {
    const found: { after: string }[] = []
    const document = passOverPreferences.parse({ defaults: { max_chain_depth: 1 } })
    const counts = await whatIfLive(ops, { document, ...RULES, onOtherwise: (otherwise) => found.push(otherwise) })
    expect(counts.kinds['admitted → E002']).toBe(1)
    expect(counts.kinds['held → admitted']).toBe(1)
    expect(counts.kinds['E004 → admitted']).toBeGreaterThanOrEqual(1)
    expect(counts.otherwise).toBe(found.length)
    // Of one session, or of a time, alone; what was before it still counts for what it decides.
    const { row, history = [] } = await findPass(ops, { id: ids.held ?? '' }, { history: true })
    const asked = history.find(({ kind }) => kind === 'request')?.time ?? 0
    const decided = async (narrow: { session?: string | undefined; since?: number; until?: number }) =>
      (await whatIfLive(ops, { document, ...RULES, ...narrow, onOtherwise: () => undefined })).decided
    expect(counts.decided).toBeGreaterThanOrEqual(6)
    expect([await decided({ since: asked }), await decided({ until: asked - 1 })]).toEqual([1, counts.decided - 1])
    expect([await decided({ session: row.session_id }), await decided({ session: 'nobody' })]).toEqual([expect.any(Number), 0])
    expect(await decided({ session: row.session_id, since: asked, until: asked })).toBe(1)
  })

  it('is asked for again in another namespace, by a new id that names the old one, and not in its own', async () => {
    const { servers } = world.world.nats
    await using shadow = await openBus({ servers, identity: 'passover', prefix: 'shadow', onError: () => undefined })
    await shadow.ensureTopology()
    const before = await ops.bounds()
    const shown: unknown[] = []
    const context = { terminal: { interactive: false, show: (value: unknown) => shown.push(value) }, server: () => ({ url: servers[0] }) }
    const passes = await Promise.all(['held', 'chain'].map((name) => findPass(ops, { id: ids[name] ?? '' }, { history: true })))
    const options = { bus: ops, passes, toPrefix: 'shadow' }
    await expect(replayInto(context as never, options)).rejects.toMatchObject({ code: 'E042' })
    for (const toPrefix of ['', 'held.x', 'work', 'no prefix', 'shadow.'])
      await expect(replayInto(context as never, { ...options, toPrefix, yes: true }), toPrefix).rejects.toMatchObject({ code: 'E042' })
    expect(await replayInto(context as never, { ...options, yes: true })).toBe(0)
    const found: string[] = []
    await using reader = await shadow.follow({}, ({ data }) => {
      const decoded = decode(data)
      const { request } = (decoded.ok ? decoded.value : {}) as { request?: { id: string; retry_of: string } }
      if (request) found.push(`${request.retry_of} ${request.id.slice(0, 7)}`)
    })
    await reader.caughtUp
    expect(found).toEqual([`${ids.held} replay-`, `${ids.chain} replay-`])
    const since: string[] = []
    await using own = await ops.follow({ from: before.last + 1 }, ({ subject }) => void since.push(subject))
    await own.caughtUp
    // What was heard before is acknowledged now and then.
    expect(since.filter((subject) => ops.subjects.parse(subject)?.kind !== 'acknowledged')).toEqual([])
    expect(shown).toEqual([[expect.objectContaining({ again: expect.stringMatching(/^replay-/) }), expect.anything()]])
  })

  // The last one: what it takes out is gone.
  it('is known to be less than it was where a whole pass was taken out before it was archived', async () => {
    const { history = [] } = await findPass(ops, { id: ids.late ?? '' }, { history: true })
    const sequences = history.map(({ sequence }) => sequence).sort((a, b) => a - b)
    const nc = await connectClient({ servers: world.world.nats.servers })
    const { streams } = await jetstreamManager(nc)
    for (const sequence of sequences) await streams.deleteMessage(ops.subjects.stream, sequence)
    await nc.close()
    const { ok, first } = await verifyLive(ops, RULES)
    expect({ ok, first }).toEqual({
      ok: false,
      first: { sequence: sequences[0], rule: 'chain', what: expect.stringContaining('neither in the archive nor in the stream') },
    })
  })
})
