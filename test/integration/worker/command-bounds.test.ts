import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { cgroupParent, createCgroup } from '../../../packages/cli/src/process/cgroup.js'
import { gitDirectories } from '../../../packages/cli/src/sandbox/layout.js'
import { changesBetween, fingerprint } from '../../../packages/cli/src/work/file-fingerprint.js'
import { until } from '../../support/processes/until.js'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'passover-bounds-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

describe('the fingerprint of a directory', () => {
  it('tells every kind of change, those to .git too, and skips packages and server data', async () => {
    for (const inner of ['src', '.git/objects', 'node_modules', '.passover']) mkdirSync(join(folder, inner), { recursive: true })
    for (const file of ['src/a', 'src/b', 'c', '.git/index']) writeFileSync(join(folder, file), 'same size')
    const before = await fingerprint([folder])
    expect(changesBetween(before, await fingerprint([folder]))).toEqual([])
    for (const file of ['src/a', '.git/index']) writeFileSync(join(folder, file), 'sAme size')
    rmSync(join(folder, 'src/b'))
    symlinkSync('/etc/passwd', join(folder, 'link'))
    mkdirSync(join(folder, 'new'))
    mkdirSync(join(folder, '.git/objects/ab'))
    for (const inner of ['node_modules', '.passover']) writeFileSync(join(folder, inner, 'own'), 'x')
    expect(changesBetween(before, await fingerprint([folder]))).toEqual(['.git/index', '.git/objects/ab', 'link', 'new', 'src/a', 'src/b'])
  })

  it('of a missing directory is empty, and that of further ones has whole paths', async () => {
    writeFileSync(join(folder, 'HEAD'), 'x')
    expect([...(await fingerprint([join(folder, 'none'), folder])).keys()]).toEqual([join(folder, 'HEAD')])
  })
})

it('git directories are found from a worktree and from a folder below', () => {
  for (const inner of ['repo/.git/worktrees/w', 'repo/src', 'w']) mkdirSync(join(folder, inner), { recursive: true })
  writeFileSync(join(folder, 'w/.git'), `gitdir: ${join(folder, 'repo/.git/worktrees/w')}\n`)
  writeFileSync(join(folder, 'repo/.git/worktrees/w/commondir'), '../..\n')
  expect(gitDirectories(join(folder, 'w'))).toEqual([join(folder, 'repo/.git/worktrees/w'), join(folder, 'repo/.git')])
  expect(gitDirectories(join(folder, 'repo/src'))).toEqual([join(folder, 'repo/.git')])
})

describe('the cgroup of a command', () => {
  /** Files as a kernel with version 2 shows them. */
  const group = (path: string, controllers: string) => {
    mkdirSync(join(folder, path), { recursive: true })
    writeFileSync(join(folder, path, 'cgroup.subtree_control'), controllers)
  }
  const parentOf = (own: string, root = folder) => cgroupParent(root, `0::${own}\n`)?.path

  it('is made beside the worker’s own, or below it, where memory can be limited', () => {
    group('user/shell', '')
    group('user', 'cpu memory pids')
    expect(parentOf('/user/shell')).toBe(join(folder, 'user'))
    group('user', 'cpu')
    expect(parentOf('/user/shell')).toBeUndefined()
    group('user/shell', 'memory')
    expect(parentOf('/user/shell')).toBe(join(folder, 'user/shell'))
    expect(parentOf('/', join(folder, 'none'))).toBeUndefined()
  })

  it('of version 2 gets its limit, no swap, and dies as one; reports the kernel’s kills', () => {
    const made = createCgroup({ version: 2, path: folder }, 'passover-1-1', 64 << 20)
    const read = (name: string) => readFileSync(join(folder, 'passover-1-1', name), 'utf8')
    expect([read('memory.max'), read('memory.swap.max'), read('memory.oom.group')]).toEqual([String(64 << 20), '0', '1'])
    expect(made?.exceeded()).toEqual({ killed: false, peak_bytes: undefined })
    writeFileSync(join(folder, 'passover-1-1', 'memory.events'), 'low 0\nhigh 0\noom 1\noom_kill 2\noom_group_kill 1\n')
    writeFileSync(join(folder, 'passover-1-1', 'memory.peak'), '67108864\n')
    expect(made?.exceeded()).toEqual({ killed: true, peak_bytes: 64 << 20 })
    expect(createCgroup({ version: 2, path: join(folder, 'none') }, 'x', 1)).toBeUndefined()
  })

  const here = cgroupParent()
  if (!here) process.stderr.write('Skipped: a real cgroup (none can be made here).\n')
  it.runIf(here)('of this machine ends every process in it and is removed', async () => {
    const made = here && createCgroup(here, `passover-${process.pid}-test`, 64 << 20)
    const child = spawn('sh', ['-c', 'echo $$ > "$0/cgroup.procs"; setsid sleep 300 & exec sleep 300', made?.path ?? ''])
    const ended = new Promise((resolve) => child.once('exit', (_, signal) => resolve(signal)))
    const processes = () =>
      readFileSync(join(made?.path ?? '', 'cgroup.procs'), 'utf8')
        .trim()
        .split('\n')
    await until(() => processes().length >= 2, { what: 'both processes are in the group' })
    await made?.end()
    expect(await ended).toBe('SIGKILL')
    expect(existsSync(made?.path ?? '')).toBe(false)
  })
})
