import { readdir, readFile, writeFile } from 'node:fs/promises'
import type { PassKey } from '@passover/schemas'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { change, decideApply, outputWith, Place } from '../../support/fixtures/apply.js'
import { json, run } from '../../support/fixtures/cli.js'
import { startProcess } from '../../support/processes/processes.js'

/** `passover apply` and `undo` after a process that applied many files was killed, and one of them was edited. */

const APPLIER = new URL('../../dist/support/roles/applier.js', import.meta.url)
const FILES = 120

let world: AgentWorld
let place: Place
beforeAll(async () => {
  world = await AgentWorld.start({ dispatchers: [{}], audit: { people: ['maria'] } })
})
afterAll(async () => {
  await world?.[Symbol.asyncDispose]()
})
beforeEach(async () => {
  place = await Place.make()
  return () => place[Symbol.asyncDispose]()
})

const names = Array.from({ length: FILES }, (_, n) => `f${String(n).padStart(3, '0')}`)
const passover = (...args: string[]) => run([...args, '--as', 'maria'], { cwd: place.directory, env: { NATS_URL: world.world.nats.url } })
const contents = async () => new Map(await Promise.all(names.map(async (name) => [name, await readFile(place.in(name), 'utf8')] as const)))
const written = async () => [...(await contents()).values()].filter((text) => text === 'new\n').length

/** A pass of 120 changes, approved, whose application is killed at a point. */
async function killed(at: string): Promise<PassKey> {
  for (const name of names) await writeFile(place.in(name), 'old\n')
  const { output, key } = await outputWith(
    world,
    names.map((name) => change(name, 'old\n', 'new\n')),
  )
  await decideApply(world.world.bus, output)
  const env = { NATS_URL: world.world.nats.url, PASSOVER_AGENT: 'alice', KILL_AT: at }
  await using dying = startProcess(APPLIER, { env, name: 'applier' })
  await dying.heard('ready')
  dying.tell({ do: 'apply', id: key.id, directory: place.directory })
  expect((await dying.exited).signal).toBe('SIGKILL')
  return key
}

describe('an application that was killed', () => {
  it('with a local edit since: apply rolls it back first, and says what is left where', async () => {
    const { id } = await killed('apply:before-file#60')
    await writeFile(place.in('f010'), 'mine\n')
    expect(await written()).toBe(58)
    const dry = await passover('apply', id, '--dry-run')
    expect(dry.stderr).toContain(`an application of ${id} is not finished: 58 of 120 files written`)
    expect(await written()).toBe(58)
    const first = await passover('apply', id)
    expect(first.code, first.stderr).toBe(1)
    expect(first.stderr).toContain(`an application of ${id} was interrupted and has been rolled back (58 files)`)
    const kept = /f010 \(previous content: (\S+);/.exec(first.stderr)?.[1] ?? ''
    expect(await readFile(place.in(kept), 'utf8')).toBe('old\n')
    expect(first.stdout).toMatch(/f010 {2}conflict: it was changed since[\s\S]*nothing was written/)
    const now = await contents()
    expect([await written(), now.get('f010')]).toEqual([0, 'mine\n'])
    // Said for as long as it is kept, and nothing else is repeated.
    expect((await passover('apply', id)).stderr).toContain(kept)
    await writeFile(place.in('f010'), 'old\n')
    expect(await passover('apply', id)).toMatchObject({ code: 0, stdout: expect.stringContaining('Applied 120 changes') })
    expect(await written()).toBe(FILES)
    expect((await readdir(place.directory)).filter((name) => name.includes('.passover-'))).toEqual([])
  })

  it('with a local edit since: undo rolls it back, leaves the edit, and says so', async () => {
    const { id } = await killed('apply:before-file#100')
    await writeFile(place.in('f050'), 'mine\n')
    const looked = await json<{ would_undo: string[] }>(['undo', id, '--dry-run', '--as', 'maria'], {
      cwd: place.directory,
      env: { NATS_URL: world.world.nats.url },
    })
    expect(looked).toMatchObject({ code: 0 })
    expect(looked.document.would_undo).toHaveLength(98)
    const undone = await passover('undo', id)
    expect(undone).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(/f050: it was changed since; its earlier content is \.passover/),
    })
    expect(undone.stdout.match(/ restored$/gm)).toHaveLength(98)
    expect([await written(), (await contents()).get('f050')]).toEqual([0, 'mine\n'])
  })

  it.each([
    ['apply:after-intent', 0, /rolled back$/],
    ['apply:before-file#120', 119, /rolled back \(119 files\)/],
  ])('at %s, with no edit: undo restores everything, and apply then applies it', async (at, done, says) => {
    const { id } = await killed(at)
    expect(await written()).toBe(done)
    const undone = await passover('undo', id)
    expect(undone.code).toBe(0)
    expect(undone.stdout.split('\n')[0]).toMatch(says)
    expect(await written()).toBe(0)
    expect(await passover('apply', id)).toMatchObject({ code: 0 })
    expect(await written()).toBe(FILES)
  })

  it('after the last file: it counts as applied, and undo puts it back', async () => {
    const { id } = await killed('apply:after-files')
    const undone = await passover('undo', id)
    expect(undone).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(`an application of ${id} was interrupted and has been finished`),
    })
    expect(await written()).toBe(0)
    expect(await passover('undo', id)).toMatchObject({ code: 0, stdout: expect.stringContaining('was already undone by maria') })
  })
})
