import { AsyncLocalStorage } from 'node:async_hooks'
import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { type Context, type ContextManager, context, ROOT_CONTEXT, trace } from '@opentelemetry/api'
import { BasicTracerProvider, InMemorySpanExporter, type ReadableSpan, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'
import { HEADER, type PassKey } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { change, keyOf, outputWith, Place } from '../../support/fixtures/apply.js'
import { until } from '../../support/processes/until.js'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const GIVEN = `00-${TRACE}-b7ad6b7169203331-01`

let world: AgentWorld
beforeAll(async () => {
  const document = { pairs: { 'alice->fixer': { require_user_approval: false } } }
  world = await AgentWorld.start({ dispatchers: [{ policy: { version: 1, document } }] })
})
afterAll(async () => {
  await world?.[Symbol.asyncDispose]()
})

async function headersOf(key: PassKey): Promise<(string | undefined)[]> {
  const stored = await world.world.bus.journal.history(key)
  return [...new Set(stored.map(({ headers }) => headers.get(HEADER.traceparent)))]
}

const asks = (subagent: string) => ({ subagent, reason: 'r', work_context: { objective: 'o' } })

describe('without OpenTelemetry in any process', () => {
  test('a traceparent that comes in is passed on to every step, the children and the record', async () => {
    const [alice, audit, helper] = await Promise.all([world.agent('alice'), world.agent('audit'), world.agent('helper')])
    await using _helper = await helper.onPass((pass) => `${pass.traceparent}`)
    await using _audit = await audit.onPass(async (pass) => {
      pass.progress('half')
      const child = await pass.passOver(asks('helper'))
      return `${child.work_id} ${child.output}`
    })
    const output = await alice.passOver({ ...asks('audit'), traceparent: GIVEN })
    const [id = '', seen] = String(output.output).split(' ')
    expect(seen).toBe(GIVEN)
    expect(output.metadata.trace_id).toBe(TRACE)
    expect(await headersOf(keyOf(output))).toEqual([GIVEN])
    expect(await headersOf({ originator: 'audit', subagent: 'helper', id })).toEqual([GIVEN])
  })

  test('without one, and with one that is none, no message has the header, and nothing else is different', async () => {
    const alice = await world.agent('alice')
    const echo = await world.agent('echo')
    await using _echo = await echo.onPass((pass) => `${pass.traceparent}`)
    for (const traceparent of [undefined, '', 'nonsense', `00-${'0'.repeat(32)}-b7ad6b7169203331-01`, `${GIVEN}-more`]) {
      const output = await alice.passOver({ ...asks('echo'), traceparent })
      expect(output.output).toBe('undefined')
      expect(output.metadata.trace_id).toBeUndefined()
      expect(await headersOf(keyOf(output))).toEqual([undefined])
    }
  })

  test('nothing of its SDK is loaded where nobody asked for spans', async () => {
    const program = `import { createRequire } from 'node:module'
      const { openTracing } = await import('@passover/tracing')
      await openTracing({ env: process.env, service: 's', say: () => undefined })
      const loaded = Object.keys(createRequire(import.meta.url).cache).flatMap((path) => /@opentelemetry.([a-z-]+)/.exec(path)?.[1] ?? [])
      console.log(JSON.stringify([...new Set(loaded)]))`
    const loadedWith = async (env: Record<string, string>) => {
      const options = { cwd: import.meta.dirname, env: { PATH: process.env.PATH, ...env } }
      const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program], options)
      return JSON.parse(stdout) as string[]
    }
    expect((await loadedWith({})).filter((name) => name !== 'api')).toEqual([])
    expect(await loadedWith({ OTEL_TRACES_EXPORTER: 'console' })).toContain('sdk-trace-base')
  })

  test('a malformed header from elsewhere is ignored by the dispatcher', async () => {
    await world.world.agent('taker')
    const { key, ...message } = world.world.request({ to: 'taker', headers: { [HEADER.traceparent]: `00-${TRACE}-short-01` } })
    await world.world.bus.publish(message)
    const control = await world.world.work(key)
    expect(control.trace_id).toBeUndefined()
    const journal = await world.world.bus.journal.read(key)
    expect(journal).toMatchObject([{ kind: 'work', traceparent: undefined }])
  })
})

describe('in a process with an OpenTelemetry of its own', () => {
  const exporter = new InMemorySpanExporter()
  const tracer = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] })
  beforeAll(() => {
    trace.setGlobalTracerProvider(tracer)
    context.setGlobalContextManager(new AsyncContexts())
  })
  afterAll(() => {
    trace.disable()
    context.disable()
  })
  const spansOf = (id: string) => exporter.getFinishedSpans().filter(({ attributes }) => attributes['passover.id'] === id)
  const named = (spans: ReadableSpan[], name: string) => spans.find((span) => span.name.startsWith(`${name} `)) as ReadableSpan

  test('its active span is continued, and the handler runs within the span of its work', async () => {
    const [alice, nested] = await Promise.all([world.agent('alice'), world.agent('nested')])
    await using _nested = await nested.onPass(() => trace.getActiveSpan()?.spanContext().spanId ?? 'none')
    const mine = tracer.getTracer('mine').startSpan('my own')
    const output = await context.with(trace.setSpan(ROOT_CONTEXT, mine), () => alice.passOver(asks('nested')).result())
    const spans = await until(() => (spansOf(output.work_id).length >= 5 ? spansOf(output.work_id) : undefined), { what: 'its spans' })
    expect(named(spans, 'request').parentSpanContext?.spanId).toBe(mine.spanContext().spanId)
    expect(output.output).toBe(named(spans, 'work').spanContext().spanId)
    expect(output.metadata.trace_id).toBe(mine.spanContext().traceId)
  })

  test('a retry is linked to what it tries again', async () => {
    const [alice, shaky] = await Promise.all([world.agent('alice'), world.agent('shaky')])
    let runs = 0
    const ids: string[] = []
    await using _shaky = await shaky.onPass((pass) => {
      ids.push(pass.id)
      if (++runs === 1) throw new Error('not today')
      return 'done'
    })
    await alice.passOverWithRetry(asks('shaky'), { retry_delay_ms: 1 })
    const requests = await until(
      () => {
        const found = ids.map((id) => named(spansOf(id), 'request'))
        return found.length === 2 && found.every(Boolean) ? found : undefined
      },
      { what: 'both requests' },
    )
    expect(requests[1]?.links.map((link) => link.context.spanId)).toEqual([requests[0]?.spanContext().spanId])
    expect(requests[0]).toMatchObject({ links: [], attributes: { 'error.type': 'E011' } })
    expect(requests[1]?.attributes['passover.retry_of']).toBe(ids[0])
    const works = await until(
      () => {
        const found = ids.map((id) => named(spansOf(id), 'work')).filter(Boolean)
        return found.length === 2 ? found : undefined
      },
      { what: 'both runs' },
    )
    expect(works[0]?.attributes).toMatchObject({ 'error.type': 'E011' })
  })

  test('what is applied later belongs to the trace of its pass', async () => {
    await using place = await Place.make()
    await writeFile(place.in('a'), 'a')
    const { alice, output, key } = await outputWith(world, [change('a', 'a', 'A')])
    expect((await alice.apply(output, { directory: place.directory })).applied).toEqual(['a'])
    const request = named(spansOf(key.id), 'request')
    expect(named(spansOf(key.id), 'apply')).toMatchObject({
      parentSpanContext: { spanId: request.spanContext().spanId, traceId: request.spanContext().traceId },
      attributes: { 'passover.applied': 1, 'passover.conflicts': 0 },
    })
    const event = await world.world.bus.journal.last(world.world.bus.subjects.event(key, 'applied', 'alice'))
    expect(event?.headers.get(HEADER.traceparent)).toContain(request.spanContext().spanId)
  })
})

/** The least of OpenTelemetry's own AsyncLocalStorageContextManager. */
class AsyncContexts implements ContextManager {
  readonly #contexts = new AsyncLocalStorage<Context>()
  active(): Context {
    return this.#contexts.getStore() ?? ROOT_CONTEXT
  }
  with<A extends unknown[], F extends (...args: A) => ReturnType<F>>(
    within: Context,
    fn: F,
    self?: ThisParameterType<F>,
    ...args: A
  ): ReturnType<F> {
    return this.#contexts.run(within, () => fn.apply(self as never, args))
  }
  bind<T>(_: Context, target: T): T {
    return target
  }
  enable(): this {
    return this
  }
  disable(): this {
    return this
  }
}
