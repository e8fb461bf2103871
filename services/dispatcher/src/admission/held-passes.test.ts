import {
  type Bus,
  decode,
  encode,
  encodeHeaders,
  type Journal,
  type PublishMessage,
  readHeaders,
  type StoredMessage,
  Subjects,
} from '@passover/bus'
import { type AdmitInput, admit } from '@passover/core'
import { HEADER, type PassKey, passOverPreferences } from '@passover/schemas'
import { pino } from 'pino'
import { describe, expect, test } from 'vitest'
import { heldStep } from '../messages/journal-steps.js'
import { parseRequest } from '../messages/parse-request.js'
import { dispatcherOptions } from '../runtime/options.js'
import { noStats } from '../runtime/stats.js'
import type { Context } from './context.js'
import { advanceHeldPass, decideHeld } from './held-passes.js'

const START = 1_700_000_000_000
const KEY: PassKey = { originator: 'alice', subagent: 'audit', id: 'pass-00000001' }
const subjects = new Subjects()

function storedAs({ subject, headers = {}, data = new Uint8Array(0) }: PublishMessage, sequence: number): StoredMessage {
  return { subject, sequence, time: START, data, headers: readHeaders(encodeHeaders({ [HEADER.nonce]: 'n', ...headers })) }
}

/** A held pass and a decision about it, in a world whose clock the test moves. */
function scene(
  decision: {
    person?: string
    headers?: Record<string, string>
    registered?: string[]
    base?: number
    said?: object
    revoked?: ReadonlyMap<string, number> | undefined
    violated?: true
    outcome?: 'stored' | 'lost'
  } = {},
) {
  const request = {
    id: KEY.id,
    originating_agent_id: 'alice',
    subagent_id: 'audit',
    reason: 'r',
    return_required: true,
    timeout_ms: 10_000,
    override: { hold_before_dispatch: true },
  }
  const asked = storedAs({ subject: subjects.request('audit', 'alice'), data: encode({ v: 1, request, parts: [] }, 'msgpack') }, 1)
  const reading = parseRequest(asked, KEY)
  if (!reading.ok) throw new Error(reading.error.message)
  const input: AdmitInput = {
    request: reading.value.request,
    subject: KEY,
    request_sequence: 1,
    requested_at: START,
    now: START,
    parts: [],
    digest: reading.value.digest,
    session_id: '',
    reply_type: 'msgpack',
    agents: {
      subagent: { name: 'audit', roles: { originates: 'never', subagent: true }, registered_by: 'pat', updated_at: START },
      open: true,
    },
    policy: { version: 1, document: passOverPreferences.parse({ pairs: { 'alice->audit': { approval_expires_ms: 5_000 } } }) },
    id_window_ms: 3_600_000,
    return_id: 'x',
  }
  const admission = admit(input)
  if (admission.kind !== 'hold') throw new Error(`not held: ${JSON.stringify(admission)}`)
  const { digest } = reading.value
  const step = heldStep({ subjects, key: KEY, guard: 0, nonce: 'n' }, admission)
  const { base } = decision
  const held = storedAs(base === undefined ? step : { ...step, data: withBase(step.data ?? new Uint8Array(0), base) }, 2)
  const { person = 'pat', headers = {}, registered = [] } = decision
  const said = {
    subject: subjects.decision(KEY, 'dispatch', person),
    headers,
    data: encode({ v: 1, verdict: 'approve', digest, ...decision.said }, 'msgpack'),
  }
  const published: PublishMessage[] = []
  const time = { now: START + 100 }
  const advance: Journal['advance'] = async (_, plan, { known = [] }) => {
    let tries = 0
    for (let next = plan(known, tries); ; next = plan(known, ++tries)) {
      if ('done' in next) return { ok: true, value: next.done }
      published.push(next.publish)
      if (tries === 1) return { ok: true, value: next.stored(9) }
      time.now += 6_000
    }
  }
  const violation = { subject: subjects.event(KEY, 'violation', 'passover'), data: encode({ v: 1, sequence: 3, what: 'w' }, 'msgpack') }
  const noted = decision.violated ? [storedAs({ ...violation, headers: { [HEADER.contentType]: 'application/msgpack' } }, 4)] : []
  const journal = {
    history: async () => [asked, held, storedAs(said, 3), ...noted],
    message: async () => asked,
    last: async () => undefined,
    advance,
  }
  const publish = async (message: PublishMessage) => {
    published.push(message)
    return { kind: decision.outcome ?? 'stored' }
  }
  const record = (name: string) => (registered.includes(name) ? { name } : undefined)
  const context = {
    deps: { bus: { subjects, journal, publish } as unknown as Bus, clock: { now: () => time.now }, log: pino({ level: 'silent' }) },
    options: dispatcherOptions.parse({}),
    rules: { id_window_ms: 3_600_000 },
    stats: noStats(),
    // What its own copy knows, and what the bucket says.
    registry: {
      get: () => undefined,
      load: async (name: string) => record(name),
      revoked: async () => ('revoked' in decision ? decision.revoked : new Map()),
    },
    parents: {},
    nonce: () => 'n',
  } as unknown as Context
  return { context, published }
}

/** A held step as a dispatcher of a later version writes it. */
function withBase(data: Uint8Array, base: number): Uint8Array {
  const decoded = decode(data, 'msgpack')
  const body = (decoded.ok ? decoded.value : undefined) as { control: { policy: object } }
  return encode({ ...body, control: { ...body.control, policy: { ...body.control.policy, base } } }, 'msgpack')
}

describe('driveHeld', () => {
  test('leaves an approval undecided where the policy that the pass is held under cannot be read here', async () => {
    const { context, published } = scene({ base: 99 })
    expect(await advanceHeldPass(context, KEY)).toBe('failed')
    expect(await decideHeld(context, { key: KEY, item: 'dispatch', person: 'pat' })).toMatchObject({ retry: true })
    expect(published).toEqual([])
  })

  test('decides at each try: an approval that is not stored before its expiry ends the pass', async () => {
    const { context, published } = scene()
    expect(await advanceHeldPass(context, KEY)).toBe('moved on')
    expect(published.map(({ subject }) => subject.split('.')[0])).toEqual(['work', 'return'])
    const body = decode(published[1]?.data ?? new Uint8Array(0))
    expect(body.ok && body.value).toMatchObject({ error: { code: 'E013', details: { approval: 'expired' } } })
  })

  test.each([
    ['of an agent that only the bucket knows yet', { person: 'scout', registered: ['scout'] }],
    ['of the originator', { person: 'alice' }],
    ['whose header names another digest', { headers: { [HEADER.digest]: '0'.repeat(64) } }],
    ['whose header says the contrary', { headers: { [HEADER.verdict]: 'deny' } }],
    ['that is recorded as a violation', { violated: true as const }],
  ])('a decision %s does not count', async (_, decision) => {
    const { context, published } = scene(decision)
    expect(await advanceHeldPass(context, KEY)).toBe('undecided')
    expect(published).toEqual([])
  })

  test.each([
    ['made despite the revocation', { said: { despite_revocation: true }, revoked: new Map([['alice', 2]]) }],
    ['stored before the revocation', { revoked: new Map([['alice', 4]]) }],
  ])('an approval %s counts', async (_, decision) => {
    expect(await advanceHeldPass(scene(decision).context, KEY)).toBe('moved on')
  })

  test.each(['alice', 'audit'])(
    'records an approval that overlooks the revocation of %s as a violation, and leaves the pass held',
    async (agent) => {
      const { context, published } = scene({ revoked: new Map([[agent, 2]]) })
      expect(await advanceHeldPass(context, KEY)).toBe('undecided')
      const subject = subjects.event(KEY, 'violation', 'passover')
      expect(published).toMatchObject([{ subject, guard: { subject, sequence: 0 } }])
      expect(decode(published[0]?.data ?? new Uint8Array(0), 'msgpack')).toMatchObject({ value: { sequence: 3, what: expect.any(String) } })
    },
  )

  test.each([
    ['it cannot read the newest agent records, because a revocation may be among them', { revoked: undefined }],
    ['the violation is not stored', { revoked: new Map([['alice', 2]]), outcome: 'lost' as const }],
  ])('judges an approval again if %s', async (_, decision) => {
    expect(await advanceHeldPass(scene(decision).context, KEY)).toBe('failed')
  })
})
