import type { Gateway } from '@passover/gateway'
import type { GatewayWorld } from './gateway.js'
import { until } from './until.js'

/** What is asked of one operation. */
export interface Sent {
  path?: Record<string, unknown>
  query?: Record<string, unknown>
  header?: Record<string, unknown>
  body?: unknown
  token?: string
  gateway?: Gateway
}

/** Asks an operation, and sees to it that the answer is the documented one of this status. Gives its body. */
export type Told = (operation: string, status: number, sent: Sent) => Promise<Record<string, unknown>>

const CHANGE = {
  type: 'file_modification' as const,
  path: 'a',
  old_content: '1',
  new_content: '2',
  reason: 'r',
  confidence: 'high' as const,
}
const WAITS = { prefer: 'wait=30' }
const SHARED = 'an-id-that-two-have'

function asked(subagent: string, more: object = {}) {
  return { subagent, reason: 'r', work_context: { objective: 'o'.repeat(40) }, ...more }
}

/** Agents of which each ends a pass in a way of its own. `patient`: a gateway that waits for ends. */
export async function makeEnding(world: GatewayWorld): Promise<Gateway> {
  const { world: made } = world.agents
  await made.agent('bob', { originates: 'always' })
  for (const name of ['breaks', 'idle', 'changes']) await made.agent(name)
  await (await world.agents.agent('breaks')).onPass(
    () => {
      throw new Error('a bug')
    },
    { log: () => undefined },
  )
  await (await world.agents.agent('changes')).onPass(() => ({ output: 'done', summary: 's', artifacts: [CHANGE] }))
  return await world.another({ rate_burst: 10_000, rate_per_second: 10_000 })
}

/** Brings about what no generated request does, each status that is documented of what passes, policies and dead letters come to. */
export async function endings(world: GatewayWorld, patient: Gateway, told: Told): Promise<void> {
  await passesEnd(patient, told)
  await peopleDecide(patient, told)
  await policiesChange(told)
  await lettersSettle(world, told)
}

async function passesEnd(gateway: Gateway, told: Told): Promise<void> {
  const token = 'agent~alice'
  const create = (status: number, body: object, more: Sent = {}) =>
    told('createPass', status, { gateway, token, header: WAITS, body, ...more })
  await create(404, asked('nobody'))
  await create(422, asked('alice'))
  await create(413, asked('audit', { override: { max_context_size_bytes: 10 } }))
  await create(502, asked('breaks'))
  await create(504, asked('idle', { timeout_ms: 300 }))
  await create(200, asked('audit', { id: SHARED }))
  await create(200, asked('audit', { id: SHARED }), { token: 'agent~bob' })
  await create(202, asked('idle', { id: 'an-id-to-be-cancelled' }), { header: {} })
  const ends = create(409, asked('idle', { id: 'an-id-to-be-cancelled' }))
  // On a busy machine it is 202 at first: asked for, and not ended within the moment that is waited.
  const cancelled = () => told('cancelPass', 200, { gateway, path: { id: 'an-id-to-be-cancelled' }, body: {} })
  await until(cancelled, { what: 'the pass is cancelled', deadline_ms: 60_000 })
  await ends
  const path = { id: SHARED }
  for (const operation of ['cancelPass', 'approvePass', 'denyPass']) await told(operation, 409, { gateway, path, body: {} })
  for (const operation of ['showPass', 'showPlan']) await told(operation, 409, { gateway, path })
  const { id } = await create(200, asked('changes'))
  for (const operation of ['showPass', 'showPlan']) await told(operation, 200, { gateway, path: { id } })
}

async function peopleDecide(gateway: Gateway, told: Told): Promise<void> {
  for (const [first, then] of [
    ['approvePass', 'denyPass'],
    ['denyPass', 'approvePass'],
  ] as const) {
    const body = asked('audit', { override: { hold_before_dispatch: true } })
    const { id } = await told('createPass', 202, { gateway, token: 'agent~alice', body })
    const due = async () => ('due' in (await told('showPass', 200, { gateway, path: { id } })) ? true : undefined)
    await until(due, { what: `${id} waits for a person` })
    const say = (operation: string, status: number, more: object) => told(operation, status, { gateway, path: { id }, body: more })
    await say(first, 412, { digest: 'of something else' })
    await say(first, 200, { item: 'dispatch' })
    await say(then, 409, { item: 'dispatch' })
  }
}

async function policiesChange(told: Told): Promise<void> {
  const { version } = await told('getPolicy', 200, {})
  const put = (status: number, body: object, header: object = { 'if-match': `"${version}"` }) =>
    told('putPolicy', status, { body, header: { ...header } })
  await put(428, {}, {})
  await put(409, { pairs: { 'alice->ghost': { enabled: true } } })
  await put(422, { subagents: { audit: { output_schema: { type: 'no such type' } } } })
  await put(200, { defaults: { timeout_ms: 20_000 } })
  await put(412, {})
}

async function lettersSettle(world: GatewayWorld, told: Told): Promise<void> {
  const { world: made } = world.agents
  const bad = await made.send(new TextEncoder().encode('no request'))
  await made.end(bad)
  const path = { id: bad.id }
  const listed = async () => {
    const { letters } = (await told('listDeadLetters', 200, {})) as { letters: unknown[] }
    return letters.length > 0 ? true : undefined
  }
  await until(listed, { what: 'the dead letter is listed' })
  await told('showDeadLetter', 200, { path })
  await told('dropDeadLetter', 200, { path, body: {} })
  await told('requeueDeadLetter', 409, { path, body: {} })
}
