import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { cgroupParent, makeCgroup } from '../../packages/cli/src/work/cgroup.js'
import { changesBetween, fingerprint } from '../../packages/cli/src/work/fingerprint.js'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'passover-bounds-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

describe('the fingerprint of a directory', () => {
  it('tells every kind of change, and leaves tools their own folders', async () => {
    for (const inner of ['src', '.git', 'node_modules', '.passover']) mkdirSync(join(folder, inner))
    for (const file of ['src/a', 'src/b', 'c']) writeFileSync(join(folder, file), 'same size')
    const before = await fingerprint(folder)
    expect(changesBetween(before, await fingerprint(folder))).toEqual([])
    writeFileSync(join(folder, 'src/a'), 'sAme size')
    rmSync(join(folder, 'src/b'))
    symlinkSync('/etc/passwd', join(folder, 'link'))
    mkdirSync(join(folder, 'new'))
    for (const inner of ['.git', 'node_modules', '.passover']) writeFileSync(join(folder, inner, 'own'), 'x')
    expect(changesBetween(before, await fingerprint(folder))).toEqual(['link', 'new', 'src/a', 'src/b'])
  })

  it('of what is not there is empty', async () => {
    expect((await fingerprint(join(folder, 'none'))).size).toBe(0)
  })
})

/** Files as a kernel shows them: that the kernel itself holds the limit only a system with cgroup v2 can show. */
describe('the cgroup of a command', () => {
  const group = (path: string, controllers: string) => {
    mkdirSync(join(folder, path), { recursive: true })
    writeFileSync(join(folder, path, 'cgroup.subtree_control'), controllers)
    writeFileSync(join(folder, path, 'cgroup.procs'), '')
  }

  it('is made beside the worker’s own, or below it, where memory can be limited', () => {
    group('user/shell', '')
    group('user', 'cpu memory pids')
    expect(cgroupParent(folder, '/user/shell')).toBe(join(folder, 'user'))
    group('user', 'cpu')
    expect(cgroupParent(folder, '/user/shell')).toBeUndefined()
    group('user/shell', 'memory')
    expect(cgroupParent(folder, '/user/shell')).toBe(join(folder, 'user/shell'))
    expect(cgroupParent(join(folder, 'none'), '/')).toBeUndefined()
  })

  it('gets its limit, no swap, and dies as one; tells what the kernel did', () => {
    const made = makeCgroup(folder, 'passover-1-1', 64 << 20)
    const read = (name: string) => readFileSync(join(folder, 'passover-1-1', name), 'utf8')
    expect([read('memory.max'), read('memory.swap.max'), read('memory.oom.group')]).toEqual([String(64 << 20), '0', '1'])
    expect(made?.exceeded()).toEqual({ killed: false, peak_bytes: undefined })
    writeFileSync(join(folder, 'passover-1-1', 'memory.events'), 'low 0\nhigh 0\noom 1\noom_kill 2\noom_group_kill 1\n')
    writeFileSync(join(folder, 'passover-1-1', 'memory.peak'), '67108864\n')
    expect(made?.exceeded()).toEqual({ killed: true, peak_bytes: 64 << 20 })
    expect(makeCgroup(join(folder, 'none'), 'x', 1)).toBeUndefined()
  })
})
