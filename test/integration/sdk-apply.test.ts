import { mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { decode } from '@passover/bus'
import type { FileModificationArtifact } from '@passover/schemas'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { AgentWorld } from '../support/agents.js'

let world: AgentWorld
let root: string
let directory: string
beforeAll(async () => {
  world = await AgentWorld.start({ audit: false })
})
afterAll(async () => {
  await world?.[Symbol.asyncDispose]()
})
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'apply-'))
  directory = join(root, 'project')
  await mkdir(directory)
  return () => rm(root, { recursive: true })
})

function change(
  path: string,
  old_content: string,
  new_content: string,
  rest: Partial<FileModificationArtifact> = {},
): FileModificationArtifact {
  return { type: 'file_modification', path, old_content, new_content, reason: 'because', confidence: 'high', ...rest }
}

/** A real output with these modifications, and the originator that applies them. */
async function outputWith(artifacts: FileModificationArtifact[]) {
  const alice = await world.agent('alice')
  const fixer = await world.agent('fixer')
  await using _worker = await fixer.onPass(() => ({ artifacts }))
  return { alice, output: await alice.passOver({ subagent: 'fixer', reason: 'fix', work_context: { objective: 'fix' } }) }
}

describe('applyModifications', () => {
  it('applies the chosen ones, rejects the rest, and records both', async () => {
    for (const name of ['a', 'b', 'c']) await writeFile(join(directory, name), name, { mode: 0o640 })
    const { alice, output } = await outputWith([change('a', 'a', 'A'), change('b', 'b', 'B'), change('c', 'c', 'C')])
    const done = await alice.applyModifications(output, { directory, applied_by: 'maria', choose: ({ path }) => path !== 'b' })
    expect(done).toEqual({ applied: ['a', 'c'], conflicts: [], rejected: ['b'] })
    expect(await Promise.all(['a', 'b', 'c'].map((name) => readFile(join(directory, name), 'utf8')))).toEqual(['A', 'b', 'C'])
    expect((await stat(join(directory, 'a'))).mode & 0o777).toBe(0o640)
    expect(await readdir(directory)).toEqual(['a', 'b', 'c'])
    expect(output.metadata).toMatchObject({ applied: true, applied_by: 'maria' })
    const { bus } = world.world
    const key = { originator: 'alice', subagent: 'fixer', id: output.work_id }
    const event = await bus.journal.last(bus.subjects.event(key, 'applied', 'alice'))
    expect(decode(event?.data ?? new Uint8Array())).toMatchObject({ value: { applied_by: 'maria', applied: ['a', 'c'], rejected: ['b'] } })
  })

  it('never overwrites what was changed since, and creates and deletes only what is as it was', async () => {
    await writeFile(join(directory, 'changed'), 'by somebody')
    await writeFile(join(directory, 'there'), 'x')
    await writeFile(join(directory, 'old'), 'old')
    const { alice, output } = await outputWith([
      change('changed', 'before', 'after'),
      change('missing', 'before', 'after'),
      change('there', '', 'new', { operation: 'create' }),
      change('deep/er/new', '', 'new', { operation: 'create' }),
      change('old', 'old', '', { operation: 'delete' }),
      change('bin', '', Buffer.from([0, 255]).toString('base64'), { operation: 'create', encoding: 'base64' }),
    ])
    const done = await alice.applyModifications(output, { directory, choose: () => true })
    expect(done.applied).toEqual(['deep/er/new', 'old', 'bin'])
    expect(done.conflicts.map(({ path }) => path)).toEqual(['changed', 'missing', 'there'])
    expect(await readFile(join(directory, 'changed'), 'utf8')).toBe('by somebody')
    expect(await readFile(join(directory, 'bin'))).toEqual(Buffer.from([0, 255]))
    expect((await readdir(directory)).sort()).toEqual(['bin', 'changed', 'deep', 'there'])
  })

  it('writes nothing outside the directory, whatever the path says', async () => {
    const outside = join(root, 'outside')
    await mkdir(outside)
    await writeFile(join(outside, 'secret'), 'secret')
    await writeFile(join(root, 'projectile'), 'secret')
    await symlink(outside, join(directory, 'link'))
    await symlink(join(outside, 'secret'), join(directory, 'file-link'))
    const paths = [
      '../outside/secret',
      join(outside, 'secret'),
      'link/secret',
      'file-link',
      'a/../../outside/secret',
      '..\\outside\\secret',
      '.',
      '../projectile',
    ]
    const { alice, output } = await outputWith(paths.map((path) => change(path, 'secret', 'stolen')))
    const created = await outputWith([
      change('link/new', '', 'x', { operation: 'create' }),
      change('link/deep/new', '', 'x', { operation: 'create' }),
    ])
    const done = await alice.applyModifications(output, { directory, choose: () => true })
    expect(done.conflicts.map(({ path }) => path)).toEqual(paths)
    const more = await created.alice.applyModifications(created.output, { directory, choose: () => true })
    expect(more.conflicts).toHaveLength(2)
    expect(await readFile(join(outside, 'secret'), 'utf8')).toBe('secret')
    expect(await readFile(join(root, 'projectile'), 'utf8')).toBe('secret')
    expect(await readdir(outside)).toEqual(['secret'])
  })

  it('refuses another agent`s output', async () => {
    const { output } = await outputWith([])
    const bob = await world.agent('bob')
    await expect(bob.applyModifications(output, { directory, choose: () => true })).rejects.toMatchObject({ code: 'E013' })
  })
})
