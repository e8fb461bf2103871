import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openBus } from '@passover/bus'
import { checkStream } from '@passover/chaos'
import { FAULT_POINTS, type FaultPoint } from '@passover/dispatcher'
import type { PassKey } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { World } from '../../support/dispatcher/dispatcher.js'
import { until } from '../../support/processes/until.js'

/** A dispatcher process that kills itself at the first passage of a fault point. */
const PROGRAM = `
const { runDispatcher } = await import(process.env.DISPATCHER)
await runDispatcher(process.env, { at: async (point) => { if (point === process.env.KILL_AT) process.kill(process.pid, 'SIGKILL') } })
process.stdout.write('ready\\n')
`
const DIST = new URL('../../../services/dispatcher/dist/index.js', import.meta.url).href

/** What brings a dispatcher to each point, and what must have become of it once another one has run. */
const SCENES: Record<
  'request' | 'budget' | 'bad' | 'decision' | 'ending' | 'look' | 'advisory' | 'register' | 'snapshot',
  readonly FaultPoint[]
> = {
  request: ['admission:before-publish', 'admission:after-publish', 'admission:before-ack'],
  budget: ['admission:after-charge'],
  bad: ['admission:before-dead-letter', 'admission:before-bad-return'],
  decision: ['decision:before-publish', 'decision:after-publish', 'decision:before-ack'],
  ending: ['ending:before-publish', 'ending:after-publish'],
  look: ['look:before-publish'],
  advisory: ['advisory:before-dead-letter', 'advisory:before-publish'],
  register: ['register:before-event', 'register:before-record', 'register:before-consumers'],
  snapshot: ['snapshot:before-put', 'snapshot:after-put'],
}

describe.concurrent('a dispatcher killed between two of its steps, and another one after it', () => {
  let directory: string
  let program: string
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'passover-killed-'))
    program = join(directory, 'dispatcher.mjs')
    await writeFile(program, PROGRAM)
  })
  afterAll(() => rm(directory, { recursive: true, force: true }))

  async function doomed(world: World, point: FaultPoint) {
    const env = { ...process.env, NATS_URL: world.nats.url, DISPATCHER: DIST, KILL_AT: point, PASSOVER_LOG_LEVEL: 'silent' }
    const child = spawn(process.execPath, [program], { env, stdio: ['ignore', 'pipe', 'inherit'] })
    const died = once(child, 'exit').then(([, signal]) => signal as string)
    await Promise.race([once(child.stdout, 'data'), died])
    return { died, end: () => child.kill('SIGKILL') }
  }

  test('every fault point is in a scene', () => {
    expect(Object.values(SCENES).flat().sort()).toEqual([...FAULT_POINTS].sort())
  })

  test.each(SCENES.request)('%s: one work, once', async (point) => {
    await using world = await World.start({ dispatchers: [] })
    await world.agent('audit')
    const first = await doomed(world, point)
    const key = await world.ask()
    expect(await first.died).toBe('SIGKILL')
    await world.dispatcher()
    await world.state(key, 'open')
    await world.untilAcknowledged()
    expect((await world.bus.journal.read(key)).map(({ kind }) => kind)).toEqual(['work'])
    await judged(world)
  })

  test.each(SCENES.budget)('%s: what was taken is taken once, and the work is one', async (point) => {
    await using world = await World.start({ dispatchers: [] })
    for (const name of ['audit', 'scout']) await world.agent(name)
    const first = await doomed(world, point)
    const root = await world.ask({ budget: { passes: 1 }, timeout_ms: 120_000 })
    const journal = await world.state(root, 'open')
    const parent = { ...root, return_id: (await world.work(root)).return_id, proof: journal.last }
    const child = await world.ask({ from: 'audit', to: 'scout', parent, timeout_ms: 110_000 })
    expect(await first.died).toBe('SIGKILL')
    await world.dispatcher()
    await world.state(child, 'open')
    const second = await world.end(await world.ask({ from: 'audit', to: 'scout', parent }))
    expect(second.error).toMatchObject({ code: 'E014', details: { field: 'budget.passes', limit: 1, count: 1 } })
    expect((await world.bus.journal.read(child)).map(({ kind }) => kind)).toEqual(['work'])
    await judged(world)
  })

  test.each(SCENES.bad)('%s: one dead letter, one return', async (point) => {
    await using world = await World.start({ dispatchers: [] })
    const first = await doomed(world, point)
    const bad = await world.send(Buffer.from('{"no'))
    expect(await first.died).toBe('SIGKILL')
    await world.dispatcher()
    expect((await world.end(bad)).error?.code).toBe('E005')
    await world.untilAcknowledged()
    const history = await world.bus.journal.history(bad)
    const subjects = history.map(({ subject }) => subject.split('.')[0]).filter((kind) => kind !== 'request')
    expect(subjects).toEqual(['event', 'return'])
    await judged(world)
  })

  test.each(SCENES.decision)('%s: dispatched once', async (point) => {
    await using world = await World.start({ dispatchers: [] })
    await world.agent('audit')
    const first = await doomed(world, point)
    const key = await world.ask({ override: { hold_before_dispatch: true } })
    const journal = await world.state(key, 'held')
    await world.decide(key, { digest: (journal.state === 'held' && journal.held.digest) || '' })
    expect(await first.died).toBe('SIGKILL')
    await world.dispatcher()
    await world.state(key, 'open')
    await world.untilAcknowledged()
    expect((await world.bus.journal.read(key)).map(({ kind }) => kind)).toEqual(['held', 'work'])
    await judged(world)
  })

  test.each(SCENES.ending)('%s: ended once', async (point) => {
    await using world = await World.start({ dispatchers: [] })
    await world.agent('audit')
    const first = await doomed(world, point)
    const key = await world.ask({ timeout_ms: 4_000 })
    expect(await first.died).toBe('SIGKILL')
    await endedOnce(world, key, 'E010')
  })

  test.each(SCENES.look)(
    '%s: answered',
    async (point) => {
      await using world = await World.start({ dispatchers: [] })
      const bad = await world.send(Buffer.from('{"no'))
      // Nobody admits: the request's deliveries are in the hands of a puller that does nothing with them.
      const hog = await world.bus.consume('dispatcher', () => new Promise(() => undefined), { concurrency: 64 })
      const first = await doomed(world, point)
      expect(await first.died).toBe('SIGKILL')
      await world.dispatcher({ look_after_ms: 200, admission: false })
      expect((await world.end(bad)).error?.code).toBe('E005')
      await hog.drain(0)
    },
    180_000,
  )

  test.each(SCENES.advisory)('%s: ended with E011 and a dead letter', async (point) => {
    await using world = await World.start({ dispatchers: [] })
    await world.bus.ensureAgent('audit', { subagent: true, max_attempts: 1, lease_ms: 300 })
    await world.agentRecord('audit')
    const first = await doomed(world, point)
    const key = await world.ask({ timeout_ms: 120_000 })
    const pulling = pullAndForget(world)
    expect(await first.died).toBe('SIGKILL')
    await endedOnce(world, key, 'E011')
    expect(await world.bus.journal.last(world.bus.subjects.event(key, 'dead_letter', 'passover'))).toBeDefined()
    await pulling.stop()
  })

  test.each(SCENES.register)('%s: asked again, it is registered', async (point) => {
    await using world = await World.start({ dispatchers: [] })
    const first = await doomed(world, point)
    const agent = await openBus({ servers: world.nats.url, identity: 'audit' })
    expect(await agent.ask({}, { service: 'register', timeout_ms: 1_500 })).toBeUndefined()
    expect(await first.died).toBe('SIGKILL')
    await world.dispatcher({ consumers_ms: 200 })
    expect(await agent.ask({}, { service: 'register', timeout_ms: 60_000 })).toEqual({ ok: true })
    await until(async () => (await world.workSource('low').created()) !== undefined, { what: 'its consumers are there' })
    await world.work(await world.ask())
    await agent[Symbol.asyncDispose]()
  })

  test.each(SCENES.snapshot)(
    '%s: nothing is forgotten',
    async (point) => {
      await using world = await World.start({ dispatchers: [] })
      await world.agent('audit')
      const first = await doomed(world, point)
      const key = await world.ask({ timeout_ms: 14_000 })
      expect(await first.died).toBe('SIGKILL')
      await endedOnce(world, key, 'E010')
    },
    180_000,
  )
})

/** By the independent checker: one admission and at most one return a pass, and no step that its guard does not explain. */
async function judged(world: World): Promise<void> {
  const { problems } = await checkStream(world.nats.servers, { bound_ms: 30_000 })
  expect(problems).toEqual([])
}

async function endedOnce(world: World, key: PassKey, code: string): Promise<void> {
  const running = await world.dispatcher()
  expect((await world.end(key, 60_000)).error?.code).toBe(code)
  await until(() => running.stats().open === 0, { what: 'nothing is open' })
  expect((await world.bus.journal.read(key)).map(({ kind }) => kind)).toEqual(['work', 'return'])
  await judged(world)
}

function pullAndForget(world: World) {
  let on = true
  const done = (async () => {
    await using source = world.workSource('medium')
    while (on) if ((await source.pull({ batch: 1, expires_ms: 300 }, () => undefined)) === 'failed') return
  })()
  return {
    stop: () => {
      on = false
      return done
    },
  }
}
