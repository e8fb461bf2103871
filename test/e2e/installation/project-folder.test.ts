import { AsyncLocalStorage } from 'node:async_hooks'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { connectAgent, type LocalInstallation, resolveServer, startLocal } from '@passover/cli'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { run } from '../../../packages/cli/src/main.js'
import { Folder, until } from '../../support/fixtures/cli.js'

/** The commands in this process, on a server and services started by it: what the other files try from outside. */

interface Said {
  code: number
  stdout: string
  stderr: string
}

const said = new AsyncLocalStorage<{ stdout: string; stderr: string }>()

function capture(name: 'stdout' | 'stderr'): void {
  const stream = process[name]
  const original = stream.write.bind(stream)
  vi.spyOn(stream, 'write').mockImplementation((...args: unknown[]) => {
    const into = said.getStore()
    if (!into) return (original as (...all: unknown[]) => boolean)(...args)
    into[name] += String(args[0])
    return true
  })
}

let folder: Folder
let local: LocalInstallation

async function here(...args: string[]): Promise<Said> {
  const into = { stdout: '', stderr: '' }
  const code = await said.run(into, () => run(['--directory', folder.path, '--as', 'ann', ...args]))
  return { code, ...into }
}

async function document<T = Record<string, unknown>>(...args: string[]): Promise<{ code: number; value: T }> {
  const { code, stdout } = await here('--json', ...args)
  return { code, value: JSON.parse(stdout) as T }
}

const server = () => resolveServer({}, {}, folder.path)

beforeAll(async () => {
  folder = new Folder()
  capture('stdout')
  capture('stderr')
  const started = await startLocal({ directory: folder.path })
  if (started.kind !== 'started') throw new Error('something runs there already')
  local = started.local
})
afterAll(async () => {
  await local?.stop()
  folder?.[Symbol.dispose]()
  vi.restoreAllMocks()
})
afterEach(() => {
  // Commands take their signal handlers back.
  expect(process.listenerCount('SIGHUP')).toBe(0)
})

describe('the commands, from within', () => {
  it('pass over, list, show and doctor', async () => {
    await using echo = await connectAgent('echo', server(), { directory: folder.path })
    await echo.onPass((pass) => {
      pass.progress('on it', 0.5)
      return `${pass.objective} ${pass.context.files.map(({ path, content }) => `${path}:${content ?? 'binary'}`).join(' ')}`
    })
    writeFileSync(join(folder.path, 'a.txt'), 'text')
    writeFileSync(join(folder.path, 'b.bin'), Buffer.from([0, 255, 1]))
    const asked = await here(
      'request',
      '--from',
      'alice',
      '--to',
      'echo',
      '--objective',
      'hello',
      '--file',
      'a.txt',
      '--file',
      join(folder.path, 'b.bin'),
      '--background',
      'none',
    )
    expect(asked).toMatchObject({ code: 0, stdout: expect.stringContaining('hello a.txt:text b.bin:AP8B') })
    const rows = await document<{ id: string; status: string }[]>('list', '--from', 'alice', '--to', 'echo', '--limit', '5')
    expect(rows.value).toHaveLength(1)
    const id = rows.value[0]?.id ?? ''
    expect((await here('list')).stdout).toContain(id)
    expect((await here('show', id)).stdout).toMatch(/alice → echo[\s\S]*Timeline[\s\S]*Result/)
    expect((await document('show', id.slice(0, 18))).value).toMatchObject({ id, output: { status: 'completed' } })
    expect((await here('doctor')).stdout).toContain('no problems')
    expect((await here('agents')).stdout).toMatch(/^echo +yes/m)
    expect(await here('watch', '--all', '--count', '5', id)).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/request[\s\S]*work[\s\S]*return/),
    })
    expect((await document<unknown[]>('watch', '--all', '--count', '2', '--from', 'alice')).value).toHaveLength(2)
  })

  it('tell failures in people’s words and as documents', async () => {
    expect(await here('request', '--to', 'nobody', '--objective', 'x')).toMatchObject({
      code: 4,
      stdout: '',
      stderr: expect.stringContaining('E001'),
    })
    expect(await document('request', '--to', 'nobody', '--objective', 'x')).toMatchObject({
      code: 4,
      value: { error: { code: 'E001', hint: expect.stringContaining('passover show') } },
    })
    expect(await document('show', 'nothing-like-it')).toMatchObject({ code: 3, value: { error: { code: 'E041' } } })
    for (const command of ['show', 'cancel', 'approve', 'evidence'])
      expect(await document(command, ''), command).toMatchObject({
        code: 2,
        value: { error: { code: 'E042', message: 'the id is empty' } },
      })
    expect(await document('lst')).toMatchObject({ code: 2, value: { error: { code: 'E042' } } })
    expect(await here('list', '--server', 'nats://127.0.0.1:1')).toMatchObject({ code: 5 })
    expect(await here('doctor', '--server', 'nats://127.0.0.1:1')).toMatchObject({ code: 5, stdout: expect.stringContaining('✗ server') })
    expect(await here('up')).toMatchObject({ code: 0, stdout: expect.stringContaining('Already running') })
    expect(await here('completion', 'fish')).toMatchObject({ code: 0, stdout: expect.stringContaining('complete -c passover') })
  })

  it('decide about what is held, and cancel what runs', async () => {
    await using slow = await connectAgent('slow', server(), { directory: folder.path })
    await slow.onPass((pass) => new Promise((_resolve, reject) => pass.signal.addEventListener('abort', () => reject(pass.signal.reason))))
    const approved = (await here('request', '--from', 'alice', '--to', 'slow', '--objective', 'x', '--hold', '--no-wait')).stdout.trim()
    const denied = (await here('request', '--from', 'alice', '--to', 'slow', '--objective', 'y', '--hold', '--no-wait')).stdout.trim()
    await until('both are held', async () => (await document<unknown[]>('list', '--status', 'held')).value.length === 2)
    expect((await document('approve', approved, '--yes', '--reason', 'fine')).value).toMatchObject({
      decided: true,
      by: 'ann',
      item: 'dispatch',
    })
    expect(await here('deny', denied)).toMatchObject({ code: 0, stdout: expect.stringContaining('Denied the start') })
    expect(await here('--as', 'bob', 'approve', denied)).toMatchObject({
      code: 6,
      stdout: expect.stringContaining('ann (unverified) already decided: denied'),
    })
    expect(await here('approve', approved)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('ann (unverified) already decided: approved'),
    })
    await until('it is with its worker', () => slow.connected)
    expect((await document('cancel', approved, '--dry-run')).value).toMatchObject({ would_cancel: [approved] })
    expect(await here('cancel', approved, '--reason', 'enough')).toMatchObject({ code: 0, stdout: expect.stringContaining('Cancelled') })
    expect(await here('cancel', approved)).toMatchObject({ code: 0, stdout: expect.stringContaining('has already ended') })
    expect((await here('show', denied)).stdout).toContain('dispatch: denied by ann')
  })

  it('register agents', async () => {
    expect(await here('agents', 'add', 'clerk', '--description', 'files things')).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('Registered clerk'),
    })
    expect(await here('agents', 'add', 'clerk', '--no-subagent')).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('receives no passes, originates always'),
    })
  })

  it('say why a request waits, until its time is up', async () => {
    await here('agents', 'add', 'idle')
    const asked = await here('request', '--to', 'idle', '--objective', 'x', '--timeout', '8s')
    expect(asked).toMatchObject({ code: 124, stderr: expect.stringContaining('Queued: no workers on `idle`') })
  })

  it('work until told to stop', async () => {
    const working = here('work', 'cat', '--', 'cat')
    await until('it is registered', async () => (await document<{ name: string }[]>('agents')).value.some(({ name }) => name === 'cat'))
    expect(await here('request', '--to', 'cat', '--objective', 'meow')).toMatchObject({ code: 0, stdout: expect.stringContaining('meow') })
    process.emit('SIGHUP')
    expect(await working).toMatchObject({
      code: 0,
      stderr: expect.stringMatching(/Working as cat[\s\S]*from ann[\s\S]*completed[\s\S]*Stopped after 1 pass/),
    })
    expect(await here('work', 'cat', '--', 'no-such-program')).toMatchObject({ code: 2 })
  })

  it('start a project’s own parts once, and stop them at a signal', async () => {
    using other = new Folder()
    const into = { stdout: '', stderr: '' }
    const up = said.run(into, () => run(['--directory', other.path, 'up']))
    await until('it is up', () => into.stdout.includes('is up'))
    process.emit('SIGHUP')
    expect(await up).toBe(0)
    expect(into.stderr).toContain('Stopped.')
  })
})
