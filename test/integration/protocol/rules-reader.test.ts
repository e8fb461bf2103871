import { randomUUID } from 'node:crypto'
import { encode } from '@passover/bus'
import { HEADER, type PassKey } from '@passover/schemas'
import type { PassHandle } from '@passover/sdk'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { minimalOutput } from '../../support/builders/examples.js'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { sequenceOf } from '../../support/dispatcher/dispatcher.js'
import { staysTrue, until } from '../../support/processes/until.js'

/** Rule 6 of docs/architecture/invariants.md#rules where originators read returns. Each test names the line without which it fails (tried by hand). */

let world: AgentWorld
beforeAll(async () => {
  world = await AgentWorld.start()
})
afterAll(async () => {
  await world?.[Symbol.asyncDispose]()
})

const work_context = { objective: 'do it' }
let names = 0

/** A pass that runs until it is told to return. */
async function running() {
  const name = `read${++names}`
  const worker = await world.agent(name)
  let release: ((text: string) => void) | undefined
  await worker.onPass(() => new Promise<string>((resolve) => (release = resolve)))
  const alice = await world.agent('alice')
  const handle = alice.passOver({ subagent: name, reason: 'x', work_context, timeout_ms: 60_000 })
  await handle.stored
  const key: PassKey = { originator: 'alice', subagent: name, id: handle.id }
  const { last } = await world.world.state(key, 'open')
  await until(() => release, { what: 'its handler runs' })
  return { key, handle, work: last, returns: (text: string) => release?.(text) }
}

/** A return that its worker's agent publishes past the sdk, whole and acceptable but for its guard. */
async function dishonest(key: PassKey, attempt: number, guard?: { subject: string; sequence: number }): Promise<number> {
  const output = { ...minimalOutput, work_id: key.id, originating_agent_id: key.originator, subagent_id: key.subagent, output: 'forged' }
  return sequenceOf(
    await world.world.bus.publish({
      subject: world.world.bus.subjects.return(key, key.subagent),
      headers: { [HEADER.attempt]: String(attempt), [HEADER.nonce]: 'forged' },
      data: encode({ v: 1, output }),
      ...(guard && { guard }),
    }),
  )
}

/** Another process of the same name, which reads all that it knows. */
async function reader(key: PassKey): Promise<{ handle: PassHandle }> {
  return { handle: (await world.agent('alice')).handle(key.id, key.subagent) }
}

async function waits(...handles: PassHandle[]): Promise<void> {
  let settled = 0
  const done = () => {
    settled += 1
  }
  for (const handle of handles) void handle.then(done, done)
  await staysTrue(() => settled === 0, { what: 'nobody believes it', for_ms: 1_500 })
}

describe('rule 6: a return counts only together with the step that its guard names', () => {
  // Fails with any return by the subagent believed in isValidReturn (packages/sdk/src/journal/journal-view.ts).
  test('a return that names no step, heard or read, is not taken: the reader reads again, and asks', async () => {
    const { key, handle, returns } = await running()
    // Stored as attempt 7, which never began: neither the fold nor a reader counts it.
    await dishonest(key, 7)
    const { handle: other } = await reader(key)
    await waits(handle, other)
    returns('honest')
    // Its own guarded return is refused by what was stored in between; either way nobody gets the forged one.
    const results = await Promise.allSettled([handle, other])
    for (const result of results) expect(JSON.stringify(result)).not.toContain('forged')
  })

  // Fails without guardsJournal in isValidReturn (packages/sdk/src/journal/journal-view.ts).
  test('a return whose guard is another subject`s, by an attempt that was fenced, is not taken', async () => {
    const { key, handle, work } = await running()
    sequenceOf(await world.world.step('fence', key, { attempt: 2, guard: work }))
    // The guard holds, and names the right step: but that it is the last of the journal is not what was checked.
    await dishonest(key, 1, { subject: `work.${key.originator}.${key.subagent}.${key.id}.*`, sequence: work })
    const { handle: other } = await reader(key)
    await waits(handle, other)
    expect((await world.world.journal(key)).state).toBe('open')
    await world.world.cancel(key)
    for (const one of [handle, other]) await expect(one).rejects.toMatchObject({ code: 'E043' })
  })

  // Fails with `before === attemptBegin(step.attempt, counted)` taken for true in isValidReturn (packages/sdk/src/journal/journal-view.ts).
  test('a fenced attempt`s return that names the newer attempt`s fence is not taken, heard or read', async () => {
    const { key, handle, work } = await running()
    const fence = sequenceOf(await world.world.step('fence', key, { attempt: 2, guard: work }))
    await dishonest(key, 1, { subject: world.world.bus.subjects.journal(key), sequence: fence })
    const { handle: other } = await reader(key)
    await waits(handle, other)
    expect((await world.world.journal(key)).state).toBe('open')
    await world.world.cancel(key)
    for (const one of [handle, other]) await expect(one).rejects.toMatchObject({ code: 'E043' })
  })

  // Fails with any return by the subagent believed in isValidReturn (packages/sdk/src/journal/journal-view.ts): the last one is what it finds.
  test('a later dishonest return hides the first one from exact gets: whoever comes later gets the first, from the audit', async () => {
    const { key, handle, returns } = await running()
    returns('honest')
    expect((await handle).output).toBe('honest')
    await dishonest(key, 1)
    expect((await world.world.bus.journal.glimpse(key)).filter(({ kind }) => kind === 'return')).toMatchObject([{ nonce: 'forged' }])
    const { handle: later } = await reader(key)
    expect((await later).output).toBe('honest')
  })

  // Fails without the digest in systemReturn (services/dispatcher/src/messages/journal-steps.ts), or without `differs` in pollJournal (packages/sdk/src/journal/poll.ts).
  test('a first-step return carries the request`s digest: the same request hears it again, another one hears E005', async () => {
    const [alice, other] = [await world.agent('alice'), await world.agent('alice')]
    const id = randomUUID()
    const ask = (who: typeof alice, reason: string) => who.passOver({ subagent: 'nobody-there', reason, work_context, id })
    await expect(ask(alice, 'one')).rejects.toMatchObject({ code: 'E001' })
    await expect(ask(other, 'one')).rejects.toMatchObject({ code: 'E001' })
    await expect(ask(other, 'two')).rejects.toMatchObject({ code: 'E005' })
  })
})
