import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { BIN, cli, Folder, json } from '../../support/fixtures/cli.js'

test('passover chaos: a fault that it does not know is a mistake, with those that it knows', async () => {
  using folder = new Folder()
  const { code, document } = await json<{ error: { code: string; message: string; hint: string } }>(['chaos', '--faults', 'kill,rain'], {
    cwd: folder.path,
  })
  expect(code).toBe(2)
  expect(document.error).toMatchObject({
    code: 'E042',
    message: '--faults does not accept "rain"',
    hint: expect.stringContaining('partition'),
  })
})

test.skipIf(process.platform === 'win32')(
  'a command that may open too few files says so in plain words, and a run of chaos before it starts anything',
  async () => {
    using folder = new Folder()
    const limited = (limit: number, ...args: string[]) =>
      spawnSync('sh', ['-c', `ulimit -n ${limit}; exec "$0" "$@"`, process.execPath, BIN, ...args], { cwd: folder.path, encoding: 'utf8' })
    const chaos = limited(64, 'chaos', '--minutes', '1', '--json')
    expect(JSON.parse(chaos.stdout)).toEqual({
      error: {
        code: 'E030',
        message: expect.stringContaining('the limit of open files of this process is 64'),
        hint: expect.stringContaining('ulimit -n 4096'),
      },
    })
    expect({ status: chaos.status, stderr: chaos.stderr }).toEqual({ status: 2, stderr: '' })
    expect(limited(26, 'list')).toMatchObject({
      status: 2,
      stderr: expect.stringMatching(/^no more files can be opened: .* 26 .*ulimit -n 4096\n$/),
    })
  },
)

test('passover chaos: Ctrl-C ends load and trouble, and what was asked for is checked; nothing is left', async () => {
  using folder = new Folder()
  const args = ['chaos', '--minutes', '30', '--nodes', '1', '--rate', '5', '--seed', '3', '--faults', 'kill,freeze', '--slack', '30s']
  await using running = cli([...args, '--network', 'loopback', '--report', 'out'], { cwd: folder.path })
  await running.printed(/faults, \d+ s left/, 'stderr', 120_000)
  running.child.kill('SIGINT')
  await running.printed('checking the requests made so far', 'stderr')
  const { code, stdout, stderr } = await running.ended
  expect(code, `${stdout}\n${stderr}`).toBe(0)
  expect(stdout).toMatch(/P1 holds[\s\S]*P2 holds[\s\S]*P3 holds[\s\S]*P4 holds[\s\S]*P5 holds/)
  expect(stdout).toContain('leader-kill, disk-full, flip: there is one server')
  expect(stdout).toContain('No violation')
  expect(existsSync(join(folder.path, 'out', 'report.md'))).toBe(true)
  expect(existsSync(join(folder.path, 'out', 'run'))).toBe(false)
  if (process.platform === 'linux') expect(programsWith(folder.path)).toEqual([])
}, 300_000)

/** Command lines of all processes that name a folder. */
function programsWith(folder: string): string[] {
  return readdirSync('/proc').flatMap((pid) => {
    if (!/^\d+$/.test(pid)) return []
    try {
      const line = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')
      return line.includes(folder) ? [line] : []
    } catch {
      return []
    }
  })
}
