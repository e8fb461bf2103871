import { chmod, chown, lstat, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { FileModificationArtifact, PassKey } from '@passover/schemas'
import type { Applied } from '@passover/sdk'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { World } from '../../support/dispatcher/dispatcher.js'
import { change, Place } from '../../support/fixtures/apply.js'
import { type Said, startProcess, type TestProcess } from '../../support/processes/processes.js'

/**
 * What apply does for a user who may not do all. Where the tests run as root, a process that gave up its rights applies;
 * else one of whoever runs them, and what needs a second user is left out.
 */
const ROLE = new URL('../../dist/support/roles/user-applier.js', import.meta.url)
const ROOT = process.getuid?.() === 0
/** Nobody of any system that has files. */
const USER = ROOT ? 61_234 : (process.getuid?.() ?? 0)
if (!ROOT) process.stderr.write('Left out: what apply does with files of another owner (only root can make such).\n')

let world: World
let place: Place
let user: TestProcess
beforeAll(async () => {
  world = await World.start({ dispatchers: [] })
})
afterAll(async () => {
  await world?.[Symbol.asyncDispose]()
})
beforeEach(async () => {
  place = await Place.make()
  await mkdir(join(place.root, 'state'), { mode: 0o700 })
  for (const path of [place.root, place.directory, join(place.root, 'state')]) await given(path)
  user = startProcess(ROLE, {
    env: { NATS_URL: world.nats.url, HOME: place.root, XDG_STATE_HOME: join(place.root, 'state'), ...(ROOT && { AS_UID: String(USER) }) },
    name: 'user',
  })
  expect(await user.heard('ready', 60_000)).toMatchObject({ uid: USER })
  return async () => {
    await user[Symbol.asyncDispose]()
    // Root removes whatever it is; others need the right again first.
    for (const name of ['project/locked', 'project', 'state']) await chmod(join(place.root, name), 0o700).catch(() => undefined)
    await place[Symbol.asyncDispose]()
  }
})

/** Makes it the user's. */
async function given(path: string): Promise<void> {
  if (ROOT) await chown(path, USER, USER)
}

/** A file of the user's in the project. */
async function file(name: string, content: string, mode = 0o640): Promise<void> {
  await writeFile(place.in(name), content)
  await chmod(place.in(name), mode)
  await given(place.in(name))
}

async function folder(name: string, mode = 0o755): Promise<void> {
  await mkdir(place.in(name))
  await given(place.in(name))
  await chmod(place.in(name), mode)
}

const key = (): PassKey => ({ originator: 'alice', subagent: 'fixer', id: world.id() })

async function told(what: 'apply' | 'undo', of: PassKey, artifacts: FileModificationArtifact[] = []): Promise<Said> {
  user.tell({ do: 'obey', what, key: of, directory: place.directory, artifacts })
  return user.heard('obeyed', 60_000)
}

async function apply(artifacts: FileModificationArtifact[], of = key()): Promise<Applied> {
  const { done, message } = await told('apply', of, artifacts)
  if (!done) throw new Error(String(message))
  return done as Applied
}

const content = (name: string) => readFile(place.in(name), 'utf8')

/** No set is under way or half done, and nothing is staged. */
async function nothingLeft(...files: string[]): Promise<void> {
  const all = await readdir(place.directory, { recursive: true })
  expect(all.filter((name) => !name.startsWith('.passover')).sort()).toEqual(files)
  expect(all.filter((name) => name.startsWith('.passover/apply/'))).toEqual([])
}

const MODIFY_A = change('a', 'a', 'A')

describe('a user without special rights', () => {
  it('applies a set and undoes it: the files stay theirs, with their modes', async () => {
    await file('a', 'a')
    await file('b', 'b', 0o750)
    const of = key()
    const set = [MODIFY_A, change('b', 'b', '', { operation: 'delete' }), change('deep/c', '', 'C', { operation: 'create' })]
    expect(await apply(set, of)).toMatchObject({ applied: ['a', 'b', 'deep/c'], conflicts: [], recorded: true })
    expect([await content('a'), await content('deep/c')]).toEqual(['A', 'C'])
    expect(await lstat(place.in('a'))).toMatchObject({ uid: USER, mode: 0o100_640 })
    expect((await told('undo', of)).done).toMatchObject({ undone: ['a', 'b', 'deep/c'], conflicts: [], recorded: true })
    expect([await content('a'), await content('b')]).toEqual(['a', 'b'])
    expect(await lstat(place.in('b'))).toMatchObject({ uid: USER, mode: 0o100_750 })
  })

  it('gets a read-only file refused before anything is written', async () => {
    await file('a', 'a')
    await file('b', 'b', 0o444)
    const done = await apply([MODIFY_A, change('b', 'b', 'B')])
    expect(done).toMatchObject({
      applied: [],
      held_back: ['a'],
      conflicts: [{ number: 2, path: 'b', kind: 'refused', why: 'it is read-only' }],
    })
    expect([await content('a'), await content('b')]).toEqual(['a', 'b'])
    await nothingLeft('a', 'b')
  })

  it('gets everything refused where the directory may not be written', async () => {
    await file('a', 'a')
    await chmod(place.directory, 0o555)
    const why = 'cannot write to the directory (EACCES)'
    expect(await apply([MODIFY_A])).toMatchObject({ applied: [], conflicts: [{ number: 1, path: 'a', kind: 'refused', why }] })
    expect(await readdir(place.directory)).toEqual(['a'])
    expect(await content('a')).toBe('a')
  })

  it.each([
    ['changed in', change('locked/x', 'x', 'X'), 'it could not be written (EACCES)'],
    ['deleted from', change('locked/x', 'x', '', { operation: 'delete' }), 'it could not be written (EACCES)'],
    ['made in', change('locked/new', '', 'N', { operation: 'create' }), 'it could not be written (EACCES)'],
    ['made below', change('locked/deep/er/new', '', 'N', { operation: 'create' }), 'its folder locked/deep could not be created (EACCES)'],
  ])('has nothing half done where a file is to be %s a folder that may not be written', async (_, one, why) => {
    await file('a', 'a')
    await folder('locked')
    await file('locked/x', 'x')
    await chmod(place.in('locked'), 0o555)
    const done = await apply([MODIFY_A, one])
    expect(done).toMatchObject({ applied: [], held_back: ['a'], conflicts: [{ number: 2, path: one.path, kind: 'failed', why }] })
    expect([await content('a'), await content('locked/x')]).toEqual(['a', 'x'])
    await nothingLeft('a', 'locked', 'locked/x')
  })

  it.each(['apply', 'undo'] as const)('is told with E013 or as refused where the records may not be written (%s)', async (what) => {
    await file('a', 'a')
    const of = key()
    expect(await apply([MODIFY_A], of)).toMatchObject({ applied: ['a'] })
    await chmod(place.in('.passover', 'apply'), 0o555)
    const said = await told(what, what === 'undo' ? of : key(), [change('a', 'A', 'AA')])
    const why = 'cannot write to .passover/apply (EACCES)'
    if (what === 'undo') expect(said).toMatchObject({ code: 'E013', message: expect.stringContaining(why) })
    else expect(said.done).toMatchObject({ applied: [], conflicts: [{ path: 'a', kind: 'refused', why }] })
    expect(await content('a')).toBe('A')
    await chmod(place.in('.passover', 'apply'), 0o755)
  })

  it.each(['the folder may not be written', 'the folder is a file', 'the key is none'])(
    'applies nothing without a key of their own: %s',
    async (how) => {
      await file('a', 'a')
      const state = join(place.root, 'state')
      if (how === 'the folder may not be written') await chmod(state, 0o555)
      else if (how === 'the folder is a file') {
        await rm(state, { recursive: true })
        await writeFile(state, 'in the way')
      } else {
        await mkdir(join(state, 'passover'))
        await writeFile(join(state, 'passover', 'apply.key'), 'short')
      }
      const said = await told('apply', key(), [MODIFY_A])
      expect(said).toMatchObject({ code: 'E030', message: expect.stringContaining(join(state, 'passover', 'apply.key')) })
      expect(await content('a')).toBe('a')
      await nothingLeft('a')
    },
  )
})

describe.skipIf(!ROOT)('a user among files of another owner', () => {
  it('gets a file refused that they may read and not write', async () => {
    await file('a', 'a')
    await file('b', 'b', 0o644)
    await chown(place.in('b'), 0, 0)
    const done = await apply([MODIFY_A, change('b', 'b', 'B')])
    expect(done).toMatchObject({ held_back: ['a'], conflicts: [{ path: 'b', kind: 'refused', why: 'it is not writable' }] })
    expect([await content('a'), await content('b')]).toEqual(['a', 'b'])
    await nothingLeft('a', 'b')
  })

  it.each([
    ['change', change('sticky/x', 'x', 'X')],
    ['delete', change('sticky/x', 'x', '', { operation: 'delete' })],
  ])('can not %s one in a sticky folder, and everything before it is put back', async (_, one) => {
    await file('a', 'a')
    await mkdir(place.in('sticky'))
    await chmod(place.in('sticky'), 0o1777)
    await writeFile(place.in('sticky', 'x'), 'x')
    await chmod(place.in('sticky', 'x'), 0o666)
    const done = await apply([MODIFY_A, change('sticky/own', '', 'O', { operation: 'create' }), one])
    const conflicts = [{ number: 3, path: 'sticky/x', kind: 'failed', why: 'it could not be written (EPERM)' }]
    expect(done).toMatchObject({ applied: [], held_back: ['a', 'sticky/own'], conflicts })
    expect([await content('a'), await content('sticky/x')]).toEqual(['a', 'x'])
    expect(await lstat(place.in('a'))).toMatchObject({ uid: USER, mode: 0o100_640 })
    await nothingLeft('a', 'sticky', 'sticky/x')
  })

  it('applies nothing where the key is one that they may not read', async () => {
    await file('a', 'a')
    await mkdir(join(place.root, 'state', 'passover'))
    await writeFile(join(place.root, 'state', 'passover', 'apply.key'), Buffer.alloc(32, 1), { mode: 0o600 })
    expect(await told('apply', key(), [MODIFY_A])).toMatchObject({ code: 'E030', message: expect.stringContaining('EACCES') })
    expect(await content('a')).toBe('a')
    await nothingLeft('a')
  })

  it('is not kept from applying by what another user has under way in the same directory, and leaves that alone', async () => {
    await file('a', 'a')
    const others = place.in('.passover', 'apply', 'p1', 'a'.repeat(24))
    await mkdir(others, { recursive: true })
    await writeFile(join(others, 'intent'), 'theirs', { mode: 0o600 })
    await chmod(place.in('.passover', 'apply'), 0o1777)
    expect(await apply([MODIFY_A])).toMatchObject({ applied: ['a'], settled: [{ id: 'p1', outcome: 'ignored' }] })
    expect(await readFile(join(others, 'intent'), 'utf8')).toBe('theirs')
  })
})
