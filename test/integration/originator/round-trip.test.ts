import { getEventListeners } from 'node:events'
import { passAnswer, type WorkOutput } from '@passover/schemas'
import { PassOverError } from '@passover/sdk'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { storedForPasses } from '../../support/assertions/stream.js'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { CLOCK_MS } from '../../support/dispatcher/dispatcher.js'
import { until } from '../../support/processes/until.js'

let world: AgentWorld
beforeAll(async () => {
  world = await AgentWorld.start()
})
afterAll(async () => {
  await world?.[Symbol.asyncDispose]()
})

const context = { objective: 'look at it', files: [{ path: 'a.ts', content: 'let a = 1' }] }

describe('one pass, from originator to subagent and back', () => {
  it('gives the whole output for text', async () => {
    const alice = await world.agent('alice')
    const echo = await world.agent('echo')
    await using _worker = await echo.onPass((pass) => `${pass.originator} wants: ${pass.objective} (${pass.context.files[0]?.content})`)
    const handle = alice.passOver({ subagent: 'echo', reason: 'try', work_context: context })
    const output = await handle
    expect(output).toMatchObject({
      status: 'completed',
      output: 'alice wants: look at it (let a = 1)',
      work_id: handle.id,
      subagent_id: 'echo',
      return_to: 'alice',
    })
    expect(output.metadata).toMatchObject({ chain_depth: 1, attempt: 1, applied: false })
    // By two clocks.
    expect(output.metadata.returned_at).toBeGreaterThanOrEqual(Number(output.metadata.completed_at) - 2 * CLOCK_MS)
    expect(alice.awaited).toBe(0)
  })

  it('gives failed and partial outputs, and a thrown handler as E011 with its message and stack', async () => {
    const alice = await world.agent('alice')
    const moody = await world.agent('moody')
    await using _worker = await moody.onPass((pass) => {
      if (pass.reason === 'throw') throw new RangeError('too much')
      if (pass.reason === 'nothing') return undefined
      return { status: 'failed', summary: 'could not' }
    })
    const passing = (reason: string) => alice.passOver({ subagent: 'moody', reason, work_context: context })
    expect(await passing('fail')).toMatchObject({ status: 'failed', summary: { generated_summary: 'could not' } })
    const error = await passing('throw').catch((e: unknown) => e)
    expect(error).toBeInstanceOf(PassOverError)
    expect(error).toMatchObject({ code: 'E011', message: 'too much', recoverable: true, context: { name: 'RangeError', attempts: 1 } })
    // Frames name files, and not where they are on the worker's machine.
    const { stack } = (error as PassOverError).context as { stack: string }
    expect(stack).toMatch(/^RangeError: too much\n +at .*round-trip\.test\.ts:\d+/)
    expect(stack).not.toMatch(/[(\s](file:\/\/)?\//)
    await expect(passing('nothing')).rejects.toMatchObject({ code: 'E021' })
  })

  it('hands a pass on as a child that names its parent by itself', async () => {
    const alice = await world.agent('alice')
    const scout = await world.agent('scout')
    const reader = await world.agent('reader')
    await using _scout = await scout.onPass(async (pass) => {
      const child = await scout.passOver({ subagent: 'reader', reason: 'deeper', work_context: { objective: 'read' } })
      return `${pass.id} ${child.output}`
    })
    await using _reader = await reader.onPass((pass) => `${pass.chain_depth} ${pass.ancestors.join('/')} ${pass.session_id}`)
    const handle = alice.passOver({ subagent: 'scout', reason: 'find', work_context: context })
    expect((await handle).output).toBe(`${handle.id} 2 alice/scout session-of-test`)
  })

  it('refuses an unknown subagent, a self-pass and a subagent that starts by itself', async () => {
    const alice = await world.agent('alice')
    await expect(alice.passOver({ subagent: 'nobody', reason: 'x', work_context: context })).rejects.toMatchObject({ code: 'E001' })
    await expect(alice.passOver({ subagent: 'alice', reason: 'x', work_context: context })).rejects.toMatchObject({
      code: expect.stringMatching(/E00[13]/),
    })
  })

  it('refuses bad options before anything is stored, naming the field', async () => {
    const alice = await world.agent('alice')
    const before = await storedForPasses(world.world.bus)
    const bad = (options: object) =>
      alice.passOver({ subagent: 'echo', reason: 'x', work_context: context, ...options } as never).catch((e: unknown) => e)
    expect(await bad({ reason: '' })).toMatchObject({ code: 'E005', context: { field: 'reason' } })
    expect(await bad({ subagent: 'a b' })).toMatchObject({ code: 'E005', context: { field: 'subagent' } })
    expect(await bad({ work_context: {} })).toMatchObject({ code: 'E005', context: { field: 'work_context.objective' } })
    expect(await bad({ timeout: 5 })).toMatchObject({ code: 'E005', context: { field: 'timeout' } })
    for (const id of ['', ' ', 'short', 'with.dots.in', 'x'.repeat(65), 'bad-123456', 'a*bcdefghij', 'wíth-ümlaut', 'new\nline-id']) {
      expect(await bad({ id })).toMatchObject({ code: 'E005', context: { field: 'id' } })
    }
    expect(await storedForPasses(world.world.bus)).toEqual(before)
  })

  it('aborts the handler at the deadline, ends with E010 and keeps the late output', async () => {
    const alice = await world.agent('alice')
    const slow = await world.agent('slow')
    let reason: unknown
    let ended: () => void = () => undefined
    const over = new Promise<void>((resolve) => {
      ended = resolve
    })
    await using _worker = await slow.onPass(async (pass) => {
      await new Promise<void>((resolve) => pass.signal.addEventListener('abort', () => resolve()))
      // An abort comes by the worker's own clock; its output is late once the end is stored.
      await over
      reason = pass.signal.reason
      return 'too late'
    })
    const handle = alice.passOver({ subagent: 'slow', reason: 'x', work_context: context, timeout_ms: 4_000 })
    await expect(handle).rejects.toMatchObject({ code: 'E010' })
    ended()
    const key = { originator: 'alice', subagent: 'slow', id: handle.id }
    const late = await until(() => world.world.bus.journal.last(world.world.bus.subjects.event(key, 'late', 'slow')), {
      what: 'late output',
    })
    expect(late.sequence).toBeGreaterThan(0)
    expect(reason).toMatchObject({ code: 'E010' })
    expect(await handle.status()).toBe('timed_out')
  })

  it('cancels by handle and by signal, and the worker hears it', async () => {
    const alice = await world.agent('alice')
    const idle = await world.agent('idle')
    const begun: string[] = []
    const heard: string[] = []
    await using _worker = await idle.onPass(
      (pass) =>
        new Promise<string>((resolve) => {
          begun.push(pass.id)
          pass.signal.addEventListener('abort', () => {
            heard.push(pass.id)
            resolve('stopped')
          })
        }),
    )
    const first = alice.passOver({ subagent: 'idle', reason: 'x', work_context: context })
    // Who is cancelled before its worker took it never runs, and so hears nothing.
    await until(() => begun.includes(first.id), { what: 'the first runs' })
    await first.cancel('no longer wanted')
    await expect(first).rejects.toMatchObject({ code: 'E043' })
    const stop = new AbortController()
    const second = alice.passOver({ subagent: 'idle', reason: 'x', work_context: context, signal: stop.signal })
    await until(() => begun.includes(second.id), { what: 'the second runs' })
    stop.abort()
    await expect(second).rejects.toMatchObject({ code: 'E043' })
    await until(() => [first, second].every(({ id }) => heard.includes(id)), { what: 'the worker heard both cancels' })
  })

  it('listens to the signal of a pass whose return nobody wants until that has ended, and no longer', async () => {
    const alice = await world.agent('alice')
    const unwanted = await world.agent('unwanted')
    let finish: (output: string) => void = () => undefined
    const begun: string[] = []
    await using _worker = await unwanted.onPass(
      (pass) =>
        new Promise<string>((resolve) => {
          finish = resolve
          pass.signal.addEventListener('abort', () => resolve('stopped'))
          begun.push(pass.id)
        }),
    )
    const stop = new AbortController()
    const listeners = () => getEventListeners(stop.signal, 'abort').length
    const options = { subagent: 'unwanted', reason: 'x', work_context: context, return_required: false, signal: stop.signal }
    const first = alice.passOver(options)
    await until(() => begun.includes(first.id), { what: 'the first runs' })
    expect(listeners()).toBe(1)
    finish('done')
    await until(() => listeners() === 0, { what: 'the signal is listened to no longer' })
    const other = alice.passOver(options)
    await until(() => begun.includes(other.id), { what: 'the other runs' })
    stop.abort()
    await expect(other).rejects.toMatchObject({ code: 'E043' })
  })

  it('returns early by returnFromPassOver and tells progress', async () => {
    const alice = await world.agent('alice')
    const early = await world.agent('early')
    const { returnFromPassOver } = await import('@passover/sdk')
    let second: unknown
    await using _worker = await early.onPass(async (pass) => {
      pass.progress('half', 0.5)
      await expect(returnFromPassOver({ artifacts: [{ type: 'nonsense' }] } as never)).rejects.toMatchObject({ code: 'E021' })
      await returnFromPassOver({ status: 'partial', output: 'what I have' })
      second = await returnFromPassOver('again').catch((e: unknown) => e)
    })
    const output: WorkOutput = await alice.passOver({
      subagent: 'early',
      reason: 'x',
      work_context: context,
      override: { auto_return: true },
      priority: 'high',
    })
    expect(output).toMatchObject({ status: 'partial', output: 'what I have' })
    await until(() => second, { what: 'the second return' })
    expect(second).toMatchObject({ code: 'E013' })
    // What was reported stands before the return, and after the start.
    const asked = { op: 'pass', id: output.work_id, history: true } as const
    const told = passAnswer.parse(await world.buses.get(alice)?.ask(asked))
    const kinds = told.ok ? told.passes[0]?.history?.map(({ kind }) => kind) : undefined
    // That alice heard it she tells in her own time.
    expect(
      kinds?.filter((kind) => kind !== 'acknowledged'),
      JSON.stringify(told),
    ).toEqual(['request', 'work', 'started', 'progress', 'return'])
  })
})
