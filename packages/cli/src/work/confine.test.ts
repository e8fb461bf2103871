import { describe, expect, it } from 'vitest'
import { launchOf, passesShell } from './confine.js'
import { changesBetween } from './fingerprint.js'
import { familyOf } from './proc.js'

const COMMAND = ['/bin/agent', '--flag', 'a b']
const launch = (more: Partial<Parameters<typeof launchOf>[0]> = {}) =>
  launchOf({ command: COMMAND, directory: '/p', tied: true, gated: false, ...more })
/** Where each program of the chain stands, the command last. */
const programs = (line: string[]) => line.filter((word) => ['sh', 'unshare', 'setpriv', '/bin/agent'].includes(word))

describe('the command line of a held command', () => {
  it('is the command itself where nothing is to be held', () => {
    expect(launch({ tied: false })).toEqual(COMMAND)
    expect(launch()).toEqual(['setpriv', '--pdeathsig', 'KILL', '--', ...COMMAND])
  })

  it('makes namespaces, mounts, and only then gives up what could undo them', () => {
    const line = launch({ hold: { mode: 'user', read_only: true, no_network: true } })
    expect(programs(line)).toEqual(['unshare', 'sh', 'sh', 'setpriv', '/bin/agent'])
    expect(line).toEqual(
      expect.arrayContaining(['--user', '--mount', '--net', '--no-new-privs', '--bounding-set=-all', '--ambient-caps=-all']),
    )
    expect(line.slice(-3)).toEqual(COMMAND)
  })

  it('takes from root what it needs to undo its hold, and no user namespace', () => {
    const line = launch({ hold: { mode: 'root', read_only: true, no_network: false } })
    expect(line).not.toContain('--user')
    expect(line).not.toContain('--net')
    expect(line.find((word) => word.startsWith('--bounding-set='))).toMatch(/-sys_admin,-sys_ptrace/)
  })

  it('waits before all else where it is to', () => {
    expect(launch({ tied: false, gated: true })).toEqual([
      'sh',
      '-c',
      expect.stringMatching(/^read .* <&3 .*exec 3<&-/),
      'passover',
      ...COMMAND,
    ])
  })

  it('is not made to wait by a shell that would take something of its environment', () => {
    expect(passesShell({ PATH: '/bin', _A1: '' })).toBe(true)
    for (const name of ['spring.datasource.url', 'BASH_FUNC_f%%', '1A', '']) expect(passesShell({ PATH: '/bin', [name]: 'x' })).toBe(false)
  })

  it('enters its cgroup and its limit before all else', () => {
    const line = launch({ hold: { mode: 'root', read_only: true, no_network: false }, cgroup: '/cg/one', data_bytes: 10_240 })
    expect(line.slice(0, 5)).toEqual(['sh', '-c', expect.stringContaining('cgroup.procs'), 'passover', '/cg/one'])
    expect(line.slice(5, 10)).toEqual(['sh', '-c', expect.stringContaining('ulimit -d'), 'passover', '10'])
  })
})

it('a command owns its group, its session, and what those started', () => {
  const all = [
    { pid: 10, parent: 1, group: 10, session: 10 },
    { pid: 11, parent: 10, group: 10, session: 10 },
    { pid: 12, parent: 11, group: 12, session: 12 },
    { pid: 13, parent: 12, group: 12, session: 12 },
    { pid: 14, parent: 1, group: 14, session: 10 },
    { pid: 20, parent: 1, group: 20, session: 20 },
  ]
  expect(familyOf(10, all).sort()).toEqual([10, 11, 12, 13, 14])
})

it('what was added, removed or changed is told in order', () => {
  const before = new Map([
    ['a', '1'],
    ['b', '1'],
    ['c', '1'],
  ])
  const after = new Map([
    ['b', '2'],
    ['c', '1'],
    ['0', '1'],
  ])
  expect(changesBetween(before, after)).toEqual(['0', 'a', 'b'])
  expect(changesBetween(before, before)).toEqual([])
})
