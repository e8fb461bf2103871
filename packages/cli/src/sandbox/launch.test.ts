import { describe, expect, it } from 'vitest'
import { describeSandbox, enforcedConstraints, sandboxGuarantees } from './guarantees.js'
import { type LaunchOptions, launchCommand, passesShell } from './launch.js'
import { ancestorsToPin, type Layout } from './layout.js'
import type { Bubblewrap, Mechanism, Unshare } from './mechanism.js'
import { socketFilter } from './seccomp.js'

const COMMAND = ['/bin/agent', '--flag', 'a b']
const layout: Layout = {
  directory: '/home/a/work/p',
  project: ['/home/a/work/p', '/home/a/repo/.git'],
  writable: ['/home/a', '/tmp', '/home/a/work/p/cache'],
  hidden_files: ['/run/docker.sock'],
  hidden_folders: ['/run/user/7'],
  own: [],
  program: [],
  search: [],
  secrets: { folders: [], files: [] },
}
const bubblewrap: Bubblewrap = { kind: 'bubblewrap', version: '0.8.0', network: true, sized: true, graceful: true, filter: Buffer.alloc(8) }
const unshare: Unshare = { kind: 'unshare', mode: 'user', network: true, why: 'bubblewrap is not installed' }
const none: Mechanism = { kind: 'none', why: 'x' }
const free = { read_only: false, no_network: false, limited: false, tied: true, gated: false }
const launch = (more: Partial<LaunchOptions> = {}) => launchCommand({ command: COMMAND, layout, mechanism: bubblewrap, ...free, ...more })
const pairs = (line: string[], option: string) => line.flatMap((word, at) => (word === option ? [line[at + 2]] : []))

describe('the command line of a sandboxed command', () => {
  it('is the command itself without a sandbox', () => {
    expect(launch({ mechanism: none, tied: false })).toEqual(COMMAND)
    expect(launch({ mechanism: none })).toEqual(['setpriv', '--pdeathsig', 'KILL', '--', ...COMMAND])
  })

  it('has a PID namespace even without restrictions, and changes nothing else then', () => {
    expect(launch()).toEqual([
      ...['env', '--ignore-signal=TERM', 'bwrap', '--unshare-pid', '--die-with-parent', '--bind', '/', '/', '--dev-bind', '/dev', '/dev'],
      ...['--proc', '/proc', '--chdir', '/home/a/work/p', '--', 'env', '--default-signal=TERM', ...COMMAND],
    ])
  })

  it('mounts parents before what is below them, and pins the parents of what is read-only', () => {
    const line = launch({ read_only: true })
    expect(pairs(line, '--ro-bind')).toEqual(['/', '/home/a/work/p', '/home/a/repo/.git', '/run/docker.sock'])
    expect(pairs(line, '--bind')).toEqual(['/tmp', '/home/a', '/home/a/work', '/home/a/repo', '/home/a/work/p/cache'])
    expect(line.indexOf('/home/a/repo/.git')).toBeLessThan(line.lastIndexOf('/home/a/work/p/cache'))
    expect(line).not.toContain('--unshare-net')
  })

  it('keeps the own folders of the product and its program read-only whatever the pass may do, with their parents pinned', () => {
    const own = { ...layout, own: ['/home/a/.cache/passover'], program: ['/opt/node_modules'] }
    const free = launch({ layout: own })
    expect(pairs(free, '--bind')).toEqual(['/', '/opt', '/home', '/home/a', '/home/a/.cache'])
    expect(pairs(free, '--ro-bind')).toEqual(['/opt/node_modules', '/home/a/.cache/passover'])
    for (const restriction of [{ read_only: true }, { no_network: true }]) {
      const line = launch({ layout: own, ...restriction })
      expect(pairs(line, '--ro-bind')).toEqual(expect.arrayContaining(['/opt/node_modules', '/home/a/.cache/passover']))
      expect(pairs(line, '--bind')).toContain('/home/a/.cache')
      expect(launch({ mechanism: unshare, layout: own, ...restriction })).toEqual(expect.arrayContaining(own.own.concat(own.program)))
    }
    expect(launch({ mechanism: unshare, layout: own }).join(' ')).toContain(
      'passover /home/a/work/p 2 /home/a/.cache/passover /opt/node_modules',
    )
  })

  it('mounts a project that is in a read-only folder of the product on top of it', () => {
    const line = launch({ layout: { ...layout, project: ['/home/a/work/p'], program: ['/home/a/work'] } })
    expect(line.indexOf('/home/a/work')).toBeLessThan(line.lastIndexOf('/home/a/work/p', line.indexOf('--chdir')))
    expect(pairs(line, '--bind')).toContain('/home/a/work/p')
  })

  it('leaves the project writable where only calls are forbidden, and filters sockets', () => {
    const line = launch({ no_network: true })
    expect(pairs(line, '--bind')).toEqual(expect.arrayContaining(['/home/a/work/p', '/home/a/repo/.git']))
    expect(line.join(' ')).toContain('--unshare-net')
    expect(line.join(' ')).toContain('--seccomp 4 --')
  })

  it('protects its cgroup, enters it in one shell with the gate, and sizes /dev/shm where there is none', () => {
    const line = launch({ limited: true, gated: true, cgroup: '/cg/one' })
    expect(line.slice(0, 5)).toEqual([
      'sh',
      '-c',
      expect.stringMatching(/^read .*<&3.*cgroup\.procs.*trap '' TERM/s),
      'passover',
      '/cg/one',
    ])
    expect(pairs(line, '--ro-bind-try')).toEqual(['/proc/sys', '/sys'])
    const measured = launch({ limited: true, data_bytes: 10_240, shm_bytes: 4096 })
    expect(measured[2]).toContain('ulimit -d 10 ')
    expect(measured.join(' ')).toContain('--size 4096 --perms 1777 --tmpfs /dev/shm')
  })

  it('is built from util-linux without bubblewrap, with a process 1 that lets the command receive SIGTERM', () => {
    const line = launch({ mechanism: unshare, read_only: true, no_network: true })
    expect(line).toEqual(expect.arrayContaining(['--user', '--pid', '--kill-child', '--mount-proc', '--net', '--no-new-privs', '2']))
    expect(line.slice(-5 - COMMAND.length + 1)).toEqual(['sh', '-c', '"$@"; exit $?', 'passover', ...COMMAND])
  })

  it('avoids a shell for an environment that a shell would change', () => {
    expect(passesShell({ PATH: '/bin', _A1: '' })).toBe(true)
    for (const name of ['spring.datasource.url', 'BASH_FUNC_f%%', '1A', '']) expect(passesShell({ PATH: '/bin', [name]: 'x' })).toBe(false)
  })
})

it('pins each directory between a writable one and the project', () => {
  expect(ancestorsToPin(['/home/a/b/c/p'], ['/home/a'])).toEqual(['/home/a/b/c', '/home/a/b'])
  expect(ancestorsToPin(['/srv/p'], ['/home/a'])).toEqual([])
  expect(ancestorsToPin(['/home/a'], ['/home/a'])).toEqual([])
})

describe('what is said to be enforced', () => {
  const levels = (mechanism: Mechanism, cgroup?: 1 | 2) =>
    sandboxGuarantees({ mechanism, cgroup, platform: 'linux' }).map(({ level }) => level.replace('_', ' '))

  it('is what bubblewrap holds, and no more than that', () => {
    expect(levels(bubblewrap, 2)).toEqual(['enforced', 'enforced', 'enforced', 'enforced', 'enforced'])
    expect(levels({ ...bubblewrap, filter: undefined })).toEqual(['enforced', 'best effort', 'best effort', 'enforced', 'enforced'])
    expect(levels({ ...bubblewrap, network: false })[1]).toBe('not enforced')
    expect(levels(unshare, 1)).toEqual(['best effort', 'best effort', 'best effort', 'enforced', 'enforced'])
    expect(levels(none)).toEqual(['best effort', 'not enforced', 'best effort', 'best effort', 'best effort'])
  })

  it('is reported to commands by name, and to people with the reason for less', () => {
    const guarantees = sandboxGuarantees({ mechanism: unshare, cgroup: undefined, platform: 'linux' })
    expect([...enforcedConstraints(guarantees)]).toEqual(['max_compute_time_ms', 'process_cleanup'])
    expect(describeSandbox({ mechanism: unshare, guarantees })).toMatch(
      /^Sandbox .*: unshare \(bubblewrap is not installed\)\n {2}read_only +best effort/,
    )
  })
})

/** Runs a filter as the kernel would and returns its action. */
function decide(filter: Buffer, call: { arch: number; number: number; args: number[] }): number {
  const data = new Map([[0, call.number], [4, call.arch], ...call.args.map((value, at): [number, number] => [16 + at * 8, value])])
  let accumulator = 0
  for (let at = 0; ; at++) {
    const [code, yes, no, value] = [
      filter.readUInt16LE(at * 8),
      filter[at * 8 + 2] ?? 0,
      filter[at * 8 + 3] ?? 0,
      filter.readUInt32LE(at * 8 + 4),
    ]
    if (code === 0x06) return value
    if (code === 0x20) accumulator = data.get(value) ?? 0
    else if (code === 0x54) accumulator &= value
    else at += (code === 0x15 ? accumulator === value : accumulator >= value) ? yes : no
  }
}

it.each([
  ['x64', 0xc000003e, 41, 53],
  ['arm64', 0xc00000b7, 198, 199],
] as const)('refuses every socket on %s but those of a network namespace and connected pairs', (name, arch, socket, socketpair) => {
  const filter = socketFilter(name) ?? Buffer.alloc(0)
  const action = (number: number, ...args: number[]) => decide(filter, { arch, number, args })
  const [ALLOW, REFUSE, MISSING] = [0x7fff0000, 0x00050000 + 97, 0x00050000 + 38]
  expect([2, 10, 16].map((family) => action(socket, family))).toEqual([ALLOW, ALLOW, ALLOW])
  expect([0, 1, 17, 31, 38, 40, 44].map((family) => action(socket, family))).toEqual(Array(7).fill(REFUSE))
  const [STREAM, DGRAM, SEQPACKET, CLOEXEC] = [1, 2, 5, 0x80000]
  expect([STREAM, SEQPACKET, STREAM | CLOEXEC].map((type) => action(socketpair, 1, type))).toEqual([ALLOW, ALLOW, ALLOW])
  expect([DGRAM, DGRAM | CLOEXEC, 3].map((type) => action(socketpair, 1, type))).toEqual([REFUSE, REFUSE, REFUSE])
  expect(action(socketpair, 30, STREAM)).toBe(REFUSE)
  expect([425, 0x40000000 + socket].map((number) => action(number, 2))).toEqual([MISSING, MISSING])
  expect(action(0)).toBe(ALLOW)
  expect(decide(filter, { arch: 0x40000003, number: 102, args: [] })).toBe(0x80000000)
  expect(socketFilter('s390x')).toBeUndefined()
})
