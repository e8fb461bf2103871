import type { Agent, ReturnedPass } from '@passover/sdk'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { until } from '../../support/processes/until.js'

/** Notifications in the SDK: each return that policy wants told, whether or not somebody awaits it. */
let world: AgentWorld
let alice: Agent
beforeAll(async () => {
  world = await AgentWorld.start({
    dispatchers: [{ policy: { version: 1, document: { pairs: { 'alice->quiet': { notify_on_return: 'never' } } } } }],
  } as never)
  alice = await world.agent('alice')
  for (const name of ['judge', 'quiet']) {
    const worker = await world.agent(name)
    await worker.onPass(({ objective }) => {
      if (objective === 'throw') throw new Error('no')
      return objective === 'finding' ? { summary: { findings: ['one'] } } : 'fine'
    })
  }
})
afterAll(async () => {
  await world?.[Symbol.asyncDispose]()
})

type Notify = 'always' | 'only_issues' | 'never'
const ask = (objective: string, more: { to?: string; notify?: Notify; wait?: false } = {}) =>
  alice.passOver({
    subagent: more.to ?? 'judge',
    reason: 'x',
    work_context: { objective },
    ...(more.wait === false ? { return_required: false } : {}),
    ...(more.notify ? { override: { notify_on_return: more.notify } } : {}),
  })

describe('onReturn', () => {
  it('tells what came back of passes that nobody awaits, too, as far as policy wants', async () => {
    const told: ReturnedPass[] = []
    const stop = alice.onReturn((returned) => void told.push(returned))
    const handles = {
      plain: ask('fine'),
      unawaited: ask('fine', { wait: false }),
      failed: ask('throw', { wait: false }),
      issue: ask('finding', { notify: 'only_issues', wait: false }),
      no_issue: ask('fine', { notify: 'only_issues' }),
      never: ask('finding', { notify: 'never' }),
      by_pair: ask('finding', { to: 'quiet' }),
    }
    await Promise.all([handles.plain, handles.no_issue, handles.never, handles.by_pair])
    const idsOf = (names: (keyof typeof handles)[]) => names.map((name) => handles[name].id).sort()
    await until(() => told.length >= 4, { what: 'four are told' })
    const last = ask('fine')
    await until(() => told.some(({ pass }) => pass.id === last.id), { what: 'a later one is told' })
    expect(
      told
        .map(({ pass }) => pass.id)
        .filter((id) => id !== last.id)
        .sort(),
    ).toEqual(idsOf(['plain', 'unawaited', 'failed', 'issue']))
    expect(told.find(({ pass }) => pass.id === handles.failed.id)).toMatchObject({ error: { code: 'E011' } })
    expect(told.find(({ pass }) => pass.id === handles.plain.id)).toMatchObject({ output: { output: 'fine' } })
    stop()
    const silent = ask('fine')
    await silent
    expect(told.some(({ pass }) => pass.id === silent.id)).toBe(false)
  })

  it('tells only of what was asked for while it listens, not of a pass that another process or an earlier call asked for', async () => {
    const again = await world.agent('alice')
    const told: string[] = []
    const before = again.passOver({ subagent: 'judge', reason: 'x', work_context: { objective: 'fine' } })
    const stop = again.onReturn(({ pass }) => void told.push(pass.id))
    const others = ask('fine')
    await Promise.all([before, others])
    await again.handle(others.id, 'judge')
    await again.handle(before.id, 'judge')
    const own = again.passOver({ subagent: 'judge', reason: 'x', work_context: { objective: 'fine' } })
    await until(() => told.includes(own.id), { what: 'its own is told' })
    expect(told).toEqual([own.id])
    stop()
  })

  it('tells once, however many wait, and a listener that throws harms nobody', async () => {
    const told: string[] = []
    const stops = [
      alice.onReturn(() => {
        throw new Error('a listener of a test')
      }),
      alice.onReturn(({ pass }) => void told.push(pass.id)),
    ]
    const first = ask('fine')
    await Promise.all([first, alice.handle(first.id, 'judge'), alice.handle(first.id, 'judge')])
    const second = ask('fine')
    await until(() => told.includes(second.id), { what: 'the second is told' })
    // What the test before it asked for last may be told here.
    expect(told.filter((id) => [first.id, second.id].includes(id))).toEqual([first.id, second.id])
    for (const stop of stops) stop()
  })
})
