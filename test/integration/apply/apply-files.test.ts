import { existsSync } from 'node:fs'
import { chmod, chown, lstat, mkdir, readdir, readFile, rename, rm, stat, symlink, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { modificationsIn } from '@passover/core'
import type { FileModificationArtifact } from '@passover/schemas'
import type { Applied } from '@passover/sdk'
import { applySelected, type Faults, undoApplied } from '@passover/sdk/internal'
import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { clockOf, random, World } from '../../support/dispatcher/dispatcher.js'
import { change, Place } from '../../support/fixtures/apply.js'

let world: World
let place: Place
let outside: string
beforeAll(async () => {
  world = await World.start({ dispatchers: [] })
})
afterAll(async () => {
  await world?.[Symbol.asyncDispose]()
})
beforeEach(async () => {
  place = await Place.make()
  outside = join(place.root, 'outside')
  await mkdir(outside)
  await writeFile(join(outside, 'secret'), 'secret')
  return () => place[Symbol.asyncDispose]()
})

const key = () => ({ originator: 'alice', subagent: 'fixer', id: world.id() })
const home = (at?: Faults['at']) => ({
  deps: { bus: world.bus, clock: clockOf(world.bus), random, ...(at && { faults: { at } }) },
  as: 'person' as const,
  directory: place.directory,
})

function apply(artifacts: FileModificationArtifact[], at?: Faults['at'], of = key()): Promise<Applied> {
  const all = modificationsIn({ artifacts })
  return applySelected(home(at), { key: of, all, taken: all, applied_by: 'maria', binary: false })
}

/** Something that happens once, just before the n-th file is put in place. */
function before(nth: number, happens: () => Promise<unknown>): Faults['at'] {
  let passed = 0
  return async (point) => {
    if (point !== 'apply:before-file') return
    passed += 1
    if (passed === nth) await happens()
  }
}

/** Nothing outside has changed, and nothing came there. */
async function untouched(): Promise<void> {
  expect(await readdir(outside)).toEqual(['secret'])
  expect(await readFile(join(outside, 'secret'), 'utf8')).toBe('secret')
  expect((await readdir(place.root)).sort()).toEqual(['outside', 'project'])
}

const inProject = async () => (await readdir(place.directory, { recursive: true })).filter((name) => !name.startsWith('.passover')).sort()

describe('nothing outside the directory is ever written', () => {
  it('over symbolic links, to folders or to files, that lead out or stay inside', async () => {
    await symlink(outside, place.in('link'))
    await symlink(join(outside, 'secret'), place.in('file-link'))
    await symlink(join(outside, 'new'), place.in('dangling'))
    await mkdir(place.in('real'))
    await symlink('real', place.in('inner'))
    for (const path of ['link/secret', 'link/new', 'link/deep/new', 'file-link', 'dangling', 'inner/x'])
      for (const one of [
        change(path, 'secret', 'stolen'),
        change(path, '', 'x', { operation: 'create' }),
        change(path, 'secret', '', { operation: 'delete' }),
      ])
        expect((await apply([one])).conflicts, path).toHaveLength(1)
    await untouched()
    expect((await readdir(place.directory)).filter((name) => name !== '.passover')).toEqual([
      'dangling',
      'file-link',
      'inner',
      'link',
      'real',
    ])
    expect(await readdir(place.in('real'))).toEqual([])
  })

  it('by hostile paths of whatever kind', async () => {
    await mkdir(place.in('src'))
    await symlink(outside, place.in('src', 'out'))
    const piece = fc.constantFrom(
      '..',
      '.',
      '/',
      '\\',
      'src',
      'out',
      'secret',
      'outside',
      'project',
      '.git',
      '.passover',
      'apply',
      place.root,
      outside,
      '\0',
      'a',
      '~',
    )
    const hostile = fc.array(piece, { minLength: 1, maxLength: 7 }).map((pieces) => pieces.join(''))
    const joined = fc.array(piece, { minLength: 1, maxLength: 6 }).map((pieces) => pieces.join('/'))
    const operation = fc.constantFrom('create' as const, 'modify' as const, 'delete' as const)
    await fc.assert(
      fc.asyncProperty(fc.oneof(hostile, joined), operation, async (path, how) => {
        await apply([change(path, how === 'create' ? '' : 'secret', how === 'delete' ? '' : 'stolen', { operation: how })])
        await untouched()
        expect(existsSync(place.in('.git'))).toBe(false)
      }),
      { numRuns: 300 },
    )
  })

  it.each(['create', 'modify'] as const)('where a folder becomes a link out between the check and the write (%s)', async (operation) => {
    await mkdir(place.in('dir'))
    await writeFile(place.in('dir', 'secret'), 'secret')
    const path = operation === 'create' ? 'dir/new' : 'dir/secret'
    const swapped = before(1, async () => {
      await rename(place.in('dir'), place.in('moved'))
      await symlink(outside, place.in('dir'))
    })
    const done = await apply([change(path, operation === 'create' ? '' : 'secret', 'stolen', { operation })], swapped)
    expect(done).toMatchObject({ applied: [], conflicts: [{ path, kind: 'conflict' }] })
    await untouched()
  })

  it('while a folder is swapped for a link out all the time', async () => {
    let stop = false
    await mkdir(place.in('dir'))
    const swapping = (async () => {
      // What was made in the folder's place meanwhile may hinder a step: then it is tried anew.
      const steps = [
        () => rename(place.in('dir'), place.in('moved')),
        () => symlink(outside, place.in('dir')),
        () => unlink(place.in('dir')),
        () => rename(place.in('moved'), place.in('dir')),
      ]
      while (!stop) {
        for (const step of steps) await step().catch(() => undefined)
        if (existsSync(place.in('moved'))) await rm(place.in('dir'), { recursive: true, force: true })
      }
    })()
    for (let n = 0; n < 25; n += 1) await apply([change(`dir/new-${n}`, '', 'x', { operation: 'create' })]).catch(() => undefined)
    stop = true
    await swapping
    await untouched()
  })

  it('nor where the journal`s own folder is a link', async () => {
    await symlink(outside, place.in('.passover'))
    expect(await apply([change('a', '', 'x', { operation: 'create' })])).toMatchObject({ applied: [], conflicts: [{ kind: 'refused' }] })
    await untouched()
    expect(existsSync(place.in('a'))).toBe(false)
  })
})

describe('a set that cannot be finished is put back as a whole', () => {
  const three = [change('a', 'a', 'A'), change('b', 'b', '', { operation: 'delete' }), change('deep/c', '', 'C', { operation: 'create' })]
  beforeEach(async () => {
    await writeFile(place.in('a'), 'a', { mode: 0o600 })
    await writeFile(place.in('b'), 'b', { mode: 0o755 })
  })
  const asBefore = async (also: string[] = []) => {
    expect(await inProject()).toEqual(['a', 'b', ...also].sort())
    expect([await readFile(place.in('a'), 'utf8'), await readFile(place.in('b'), 'utf8')]).toEqual(['a', 'b'])
    expect([(await stat(place.in('a'))).mode & 0o777, (await stat(place.in('b'))).mode & 0o777]).toEqual([0o600, 0o755])
    expect(await readdir(place.in('.passover', 'apply'))).toEqual([])
  }

  it('where a directory gets in the way of the last file', async () => {
    const done = await apply(
      three,
      before(3, () => mkdir(place.in('deep', 'c'))),
    )
    expect(done).toMatchObject({ applied: [], conflicts: [{ path: 'deep/c' }], held_back: ['a', 'b'] })
    await asBefore(['deep', 'deep/c'])
  })

  it('where a folder is gone, or became a file', async () => {
    expect(
      await apply(
        three,
        before(3, () => rename(place.in('deep'), join(place.root, 'elsewhere'))),
      ),
    ).toMatchObject({ applied: [] })
    await asBefore()
    await rename(join(place.root, 'elsewhere'), join(outside, '..', 'gone'))
  })

  it('where a file is changed by somebody while the set is applied: it stays theirs', async () => {
    const done = await apply(
      three,
      before(2, () => writeFile(place.in('b'), 'mine')),
    )
    expect(done.conflicts).toMatchObject([{ path: 'b', kind: 'conflict' }])
    expect([await readFile(place.in('a'), 'utf8'), await readFile(place.in('b'), 'utf8'), await inProject()]).toEqual([
      'a',
      'mine',
      ['a', 'b'],
    ])
  })

  it('where somebody changes a file just after it was: it stays theirs, and what stood there before is kept and told', async () => {
    const done = await apply(
      three,
      before(2, async () => {
        await writeFile(place.in('a'), 'mine')
        await writeFile(place.in('b'), 'mine too')
      }),
    )
    const kept = /; a \(previous content: (\S+)\), b was changed/.exec(done.conflicts[0]?.why ?? '')?.[1] ?? ''
    expect([await readFile(place.in('a'), 'utf8'), await readFile(place.in('b'), 'utf8')]).toEqual(['mine', 'mine too'])
    expect([await readFile(place.in(kept), 'utf8'), kept]).toEqual(['a', expect.stringMatching(/before-0$/)])
    // Nothing was written into b.
    expect(await readdir(place.in(kept, '..'))).toEqual(expect.not.arrayContaining(['before-1']))
  })

  it('a read-only file is refused, also where root could write it', async () => {
    await chmod(place.in('a'), 0o444)
    expect((await apply(three)).conflicts).toMatchObject([{ path: 'a', kind: 'refused', why: 'it is read-only' }])
    await chmod(place.in('a'), 0o600)
    await asBefore()
  })
})

describe('what is there is kept', () => {
  it('mode and owner of a changed file, and of a deleted one that comes back', async () => {
    const root = process.getuid?.() === 0
    for (const name of ['a', 'b']) {
      await writeFile(place.in(name), name)
      await chmod(place.in(name), 0o2741)
      if (root) await chown(place.in(name), 65_534, 65_534)
    }
    const of = key()
    expect((await apply([change('a', 'a', 'A'), change('b', 'b', '', { operation: 'delete' })], undefined, of)).applied).toEqual(['a', 'b'])
    const modes = async (name: string) => {
      const { mode, uid } = await lstat(place.in(name))
      return { mode: mode & 0o777, ...(root && { uid }) }
    }
    const kept = { mode: 0o741, ...(root && { uid: 65_534 }) }
    expect(await modes('a')).toEqual(kept)
    await undoApplied(home(), { id: of.id, undone_by: 'maria' })
    expect([await modes('a'), await modes('b')]).toEqual([kept, kept])
  })

  it('what only differs in case is never written over', async () => {
    await writeFile(place.in('Readme'), 'x')
    await mkdir(place.in('Src'))
    const done = await apply([change('README', '', 'y', { operation: 'create' }), change('src/a', '', 'y', { operation: 'create' })])
    expect(done.conflicts).toMatchObject([
      { path: 'README', kind: 'refused' },
      { path: 'src/a', kind: 'refused' },
    ])
    expect(await inProject()).toEqual(['Readme', 'Src'])
  })
})
