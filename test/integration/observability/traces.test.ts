import { HEADER, type PassKey } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type ReceivedSpan, SpanReceiver } from '../../support/assertions/spans.js'
import { Installation, type OriginatorProcess } from '../../support/dispatcher/installation.js'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const CALLER = 'b7ad6b7169203331'

let here: Installation
let receiver: SpanReceiver
let traced: OriginatorProcess
let plain: OriginatorProcess
beforeAll(async () => {
  receiver = await SpanReceiver.start()
  here = await Installation.start({ dispatchers: 0 })
  await here.dispatcher(undefined, receiver.env)
  traced = await here.originator('alice', receiver.env)
  plain = await here.originator('bob')
  await Promise.all([here.worker('audit', 'audit', receiver.env), here.worker('helper', 'helper', receiver.env)])
})
afterAll(async () => {
  await here?.[Symbol.asyncDispose]()
  await receiver?.[Symbol.asyncDispose]()
})

/** What the stored messages of a pass carry: its request, its steps, and what its parties said of it. */
async function headersOf(key: PassKey): Promise<Set<string | undefined>> {
  const { bus } = here.world
  const stored = await bus.journal.history(key)
  expect(stored.length).toBeGreaterThan(1)
  return new Set(stored.map(({ headers }) => headers.get(HEADER.traceparent)))
}

async function traceIdOf(id: string): Promise<unknown> {
  const asked = (await here.world.bus.ask({ op: 'pass', id })) as { passes: { record: { metadata?: { trace_id?: string } } }[] }
  return asked.passes[0]?.record.metadata?.trace_id
}

const named = (spans: readonly ReceivedSpan[], name: string): ReceivedSpan => {
  const found = spans.filter((span) => span.name === name)
  expect(found, name).toHaveLength(1)
  return found[0] as ReceivedSpan
}

const SPANS = ['request', 'decision', 'queue_wait', 'work', 'return', 'delivery']
const spansTo = (subagent: string) => SPANS.map((name) => `${name} ${subagent}`)

describe.concurrent('one trace a chain, across real processes', () => {
  test('alice → audit → helper within the trace of the caller: each span below the right one, and the record tells the trace', async () => {
    const asked = traced.pass('audit', 'pass helper echo', { traceparent: `00-${TRACE}-${CALLER}-01` })
    expect((await asked.outcome()).output).toMatchObject({ by: 'audit' })
    const key = await asked.key()
    const above = await receiver.got(key.id, spansTo('audit'))
    const child = receiver.spans.find(({ name, trace }) => name === 'request helper' && trace === TRACE)
    const below = await receiver.got(String(child?.attributes['passover.id']), spansTo('helper'))

    expect(new Set([...above, ...below].map(({ trace }) => trace))).toEqual(new Set([TRACE]))
    const work = named(above, 'work audit')
    expect(named(above, 'request audit')).toMatchObject({ parent: CALLER, service: 'alice' })
    expect(named(below, 'request helper')).toMatchObject({ parent: work.id, service: 'audit' })
    for (const [spans, to] of [
      [above, 'audit'],
      [below, 'helper'],
    ] as const) {
      const request = named(spans, `request ${to}`)
      for (const name of ['decision', 'queue_wait', 'work', 'delivery']) expect(named(spans, `${name} ${to}`).parent, name).toBe(request.id)
      expect(named(spans, `return ${to}`).parent).toBe(named(spans, `work ${to}`).id)
      expect(named(spans, `decision ${to}`)).toMatchObject({
        service: 'passover-dispatcher',
        attributes: { 'passover.decision': 'admitted' },
      })
      expect(named(spans, `queue_wait ${to}`).ended).toBe(named(spans, `work ${to}`).started)
      expect(await headersOf(keyOf(request))).toEqual(new Set([`00-${TRACE}-${request.id}-01`]))
      expect(await traceIdOf(String(request.attributes['passover.id']))).toBe(TRACE)
    }
  })

  test('a killed worker leaves no hole: the second attempt is below the same request, its fence included', async () => {
    const first = await here.worker('mortal', 'first', { ...receiver.env, KILL_AT: 'worker:before-return' })
    const asked = traced.pass('mortal', 'echo')
    expect(await first.exited).toMatchObject({ signal: 'SIGKILL' })
    await here.worker('mortal', 'second', receiver.env)
    expect((await asked.outcome(120_000)).output).toMatchObject({ by: 'second', attempt: 2 })
    const key = await asked.key()
    const spans = await receiver.got(key.id, spansTo('mortal'))
    const request = named(spans, 'request mortal')
    const ended = spans.filter(({ name }) => name === 'work mortal')
    expect(ended.filter(({ attributes }) => attributes['passover.attempt'] === 2)).toMatchObject([
      { parent: request.id, trace: request.trace },
    ])
    expect(await headersOf(key)).toEqual(new Set([`00-${request.trace}-${request.id}-01`]))
  })

  test('who does not want to be recorded is not, and says so to all below it', async () => {
    const trace = '1'.repeat(32)
    const asked = traced.pass('audit', 'pass helper echo', { traceparent: `00-${trace}-${CALLER}-00` })
    await asked.outcome()
    const after = traced.pass('audit', 'echo')
    await after.outcome()
    // What came later has been told: by then the other would have been.
    await receiver.got((await after.key()).id, spansTo('audit'))
    expect(receiver.spans.filter((span) => span.trace === trace)).toEqual([])
    const [header, ...others] = await headersOf(await asked.key())
    expect(header).toMatch(new RegExp(`^00-${trace}-[0-9a-f]{16}-00$`))
    expect(others).toEqual([])
  })

  test('where only the services are traced, the dispatcher begins the trace, and the worker continues it', async () => {
    const asked = plain.pass('audit', 'echo')
    await asked.outcome()
    const key = await asked.key()
    const spans = await receiver.got(key.id, ['decision audit', 'work audit', 'return audit'])
    const decision = named(spans, 'decision audit')
    expect(decision.parent).toBeUndefined()
    expect(named(spans, 'work audit')).toMatchObject({ parent: decision.id, trace: decision.trace })
  })

  test('a refusal carries its trace, and the span says what was refused', async () => {
    const asked = traced.pass('nobody', 'echo')
    expect((await asked.outcome()).code).toBe('E001')
    const key = await asked.key()
    const spans = await receiver.got(key.id, ['request nobody', 'decision nobody', 'delivery nobody'])
    const request = named(spans, 'request nobody')
    expect(request.attributes).toMatchObject({ 'error.type': 'E001' })
    expect(named(spans, 'decision nobody').attributes).toMatchObject({ 'passover.decision': 'refused', 'passover.code': 'E001' })
    expect(await headersOf(key)).toEqual(new Set([`00-${request.trace}-${request.id}-01`]))
    expect(await traceIdOf(key.id)).toBe(request.trace)
  })
})

function keyOf({ attributes }: ReceivedSpan): PassKey {
  const field = (name: string) => String(attributes[`passover.${name}`])
  return { originator: field('originator'), subagent: field('subagent'), id: field('id') }
}
