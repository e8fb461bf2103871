import { execFileSync } from 'node:child_process'
import { cp, lstat, mkdir, readdir, readFile, rm, stat, symlink, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { modificationsIn } from '@passover/core'
import { type PassKey, sha256 } from '@passover/schemas'
import type { Applied } from '@passover/sdk'
import { applySelected, undoApplied } from '@passover/sdk/internal'
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest'
import { clockOf, random, World } from '../../support/dispatcher/dispatcher.js'
import { change, Place } from '../../support/fixtures/apply.js'

/** Records under .passover/apply that somebody else brings, as a cloned repository may (decision 34). */
let world: World
let place: Place
const before = process.env.XDG_STATE_HOME

beforeAll(async () => {
  world = await World.start({ dispatchers: [] })
})
afterAll(async () => {
  await world?.[Symbol.asyncDispose]()
})
beforeEach(async () => {
  place = await Place.make()
  process.env.XDG_STATE_HOME = join(place.root, 'state')
})
afterEach(async () => {
  if (before === undefined) delete process.env.XDG_STATE_HOME
  else process.env.XDG_STATE_HOME = before
  await place[Symbol.asyncDispose]()
})

const key = (): PassKey => ({ originator: 'alice', subagent: 'fixer', id: world.id() })
const home = (directory = place.directory) => ({
  deps: { bus: world.bus, clock: clockOf(world.bus), random },
  as: 'person' as const,
  directory,
})
function apply(name: string, of = key(), directory = place.directory): Promise<Applied> {
  const all = modificationsIn({ artifacts: [change(name, '', 'new', { operation: 'create' })] })
  return applySelected(home(directory), { key: of, all, taken: all, applied_by: 'maria', binary: false })
}

const NONCE = 'a'.repeat(24)
/** Of files that stand as `after` says; `missing` is not there, so that the set reads as half done and would be put back. */
async function hostile(of: PassKey, how: { half: boolean; seal?: string }): Promise<void> {
  const file = { path: 'a', before: { hash: sha256(Buffer.from('evil')), mode: 0o755 }, after: { hash: sha256(Buffer.from('mine')) } }
  const missing = { path: 'missing', after: { hash: sha256(Buffer.from('x')) } }
  const event = { v: 1, applied_by: 'mallory', applied_at: 1, applied: ['a'], rejected: [], nonce: NONCE }
  const files = how.half ? [file, missing] : [file]
  const folder = place.in('.passover', 'apply', of.id, NONCE)
  await mkdir(folder, { recursive: true })
  await writeFile(join(folder, 'before-0'), 'evil')
  const intent = { v: 1, kind: 'apply', nonce: NONCE, key: of, at: Date.now(), made: [], files, event }
  await writeFile(join(folder, 'intent'), `${how.seal ?? ''}\n${JSON.stringify(intent)}`)
}

it.each([
  ['half done, without a seal', { half: true }],
  ['half done, with a seal of another key', { half: true, seal: 'b'.repeat(64) }],
  ['whole, whose event nobody told', { half: false }],
])('a record %s writes nothing, tells nothing, and is named', async (_, how) => {
  await writeFile(place.in('a'), 'mine')
  const of = key()
  await hostile(of, how)
  expect(await apply('b')).toMatchObject({ applied: ['b'], settled: [{ id: of.id, outcome: 'ignored' }] })
  expect(await readFile(place.in('a'), 'utf8')).toBe('mine')
  expect((await stat(place.in('a'))).mode & 0o111).toBe(0)
  expect(await world.bus.journal.history(of)).toEqual([])
  await expect(undoApplied(home(), { id: of.id, undone_by: 'maria' })).rejects.toMatchObject({ code: 'E041' })
  expect(await readdir(place.in('.passover', 'apply', of.id, NONCE))).toContain('intent')
})

it('what is no record at all keeps nobody from applying', async () => {
  const of = key()
  await hostile(of, { half: true })
  await writeFile(place.in('.passover', 'apply', of.id, NONCE, 'intent'), '{')
  expect(await apply('b')).toMatchObject({ applied: ['b'], settled: [{ outcome: 'ignored' }] })
})

it.each<[string, (intent: string, folder: string) => Promise<unknown> | unknown]>([
  ['is a link to a device', (intent) => symlink('/dev/zero', intent)],
  ['is a link to another file', (intent) => symlink('../../../../a', intent)],
  ['is a FIFO', (intent) => execFileSync('mkfifo', [intent])],
  ['is a folder', (intent) => mkdir(intent)],
  ['is too large', (intent) => writeFile(intent, '').then(() => truncate(intent, 2 ** 30))],
  ['stands in a folder that is a link', (_, folder) => rm(folder, { recursive: true }).then(() => symlink(place.root, folder))],
  ['stands in a folder that is a file', (_, folder) => rm(folder, { recursive: true }).then(() => writeFile(folder, ''))],
])('a record that %s is named, and keeps nobody from applying and undoing', async (_, put) => {
  await writeFile(place.in('a'), 'mine')
  const folder = place.in('.passover', 'apply', 'theirs', NONCE)
  await mkdir(folder, { recursive: true })
  await put(join(folder, 'intent'), folder)
  const of = key()
  expect(await apply('b', of)).toMatchObject({ applied: ['b'], settled: [{ id: 'theirs', outcome: 'ignored' }] })
  expect(await undoApplied(home(), { id: of.id, undone_by: 'maria' })).toMatchObject({ undone: ['b'] })
  expect(await lstat(folder)).toBeDefined()
})

it('a link and a folder with the name of a lock keep nobody from applying', async () => {
  const home = place.in('.passover', 'apply')
  await mkdir(join(home, 'lock-1.2.3.elsewhere', 'full'), { recursive: true })
  // What it leads to was changed just now, whenever one looks.
  await symlink('/proc/self', join(home, 'lock-4.5.6.elsewhere'))
  expect(await apply('b')).toMatchObject({ applied: ['b'] })
})

it("one's own record counts in its own directory alone, and for nobody with another key", async () => {
  const of = key()
  expect(await apply('b', of)).toMatchObject({ applied: ['b'], settled: [] })
  const copy = join(place.root, 'copy')
  await cp(place.directory, copy, { recursive: true })
  expect(await apply('c', key(), copy)).toMatchObject({ settled: [{ id: of.id, outcome: 'ignored' }] })
  await expect(undoApplied(home(copy), { id: of.id, undone_by: 'maria' })).rejects.toMatchObject({ code: 'E041' })
  const own = process.env.XDG_STATE_HOME
  process.env.XDG_STATE_HOME = join(place.root, 'another')
  await expect(undoApplied(home(), { id: of.id, undone_by: 'maria' })).rejects.toMatchObject({ code: 'E041' })
  process.env.XDG_STATE_HOME = own
  expect((await stat(join(own ?? '', 'passover', 'apply.key'))).mode & 0o777).toBe(0o600)
  expect(await undoApplied(home(), { id: of.id, undone_by: 'maria' })).toMatchObject({ undone: ['b'] })
})

it('where no key can be kept nothing is applied, and it says why', async () => {
  await rm(join(place.root, 'state'), { recursive: true, force: true })
  await writeFile(join(place.root, 'state'), 'in the way')
  await expect(apply('b')).rejects.toThrow(/ENOTDIR/)
  expect(await readdir(place.directory)).not.toContain('b')
})
