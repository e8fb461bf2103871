import { existsSync } from 'node:fs'
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { FolderInUse, type RunningServer, ServerStartFailed, startServer } from '@passover/nats-server'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { processState } from '../../support/processes/proc.js'
import { startProcess } from '../../support/processes/processes.js'
import { until } from '../../support/processes/until.js'
import { serverBinary } from '../../support/servers/nats-process.js'

/** The embedded server: what `passover up` runs. */

const START_SERVER = new URL('../../../packages/nats-server/dist/start-server.js', import.meta.url)

describe('startServer', () => {
  let dir: string
  let binary: string
  let servers: RunningServer[]

  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'passover-server-'))
    binary = await serverBinary()
    servers = []
  })
  afterEach(async () => {
    await Promise.all(servers.map((server) => server.kill()))
    await rm(dir, { recursive: true, force: true })
  })
  const start = async (options: Partial<Parameters<typeof startServer>[0]> = {}) => {
    const server = await startServer({ dir: join(dir, 'data'), binary, ...options })
    servers.push(server)
    return server
  }

  it('answers as soon as it is there, on loopback, and keeps its files to itself', async () => {
    const server = await start()
    expect(server.url).toBe(`nats://127.0.0.1:${server.port}`)
    const nc = await connect({ servers: server.url })
    await (await jetstreamManager(nc)).streams.add({ name: 'S', subjects: ['s'] })
    await nc.close()
    for (const file of ['nats-server.conf', 'nats-server.log', 'server.lock']) {
      expect((await stat(join(dir, 'data', file))).mode & 0o077).toBe(0)
    }
    expect((await stat(join(dir, 'data'))).mode & 0o077).toBe(0)
  })

  it('keeps what was stored over stop and start', async () => {
    const first = await start()
    const nc = await connect({ servers: first.url })
    await (await jetstreamManager(nc)).streams.add({ name: 'S', subjects: ['s'] })
    await jetstream(nc).publish('s', 'kept')
    await nc.close()
    expect(await first.stop()).toEqual({ code: 0, signal: null })
    expect(existsSync(join(dir, 'data', 'server.lock'))).toBe(false)
    const second = await start()
    const again = await connect({ servers: second.url })
    expect((await (await jetstreamManager(again)).streams.getMessage('S', { seq: 1 }))?.string()).toBe('kept')
    await again.close()
  })

  it('takes sync and users from its settings', async () => {
    const users = [{ user: 'alice', password: 'right', permissions: { publish: ['a'], subscribe: ['b'] } }]
    const server = await start({ config: { sync: 'always', users, monitor: true } })
    await expect(connect({ servers: server.url })).rejects.toThrow(/authorization/i)
    await expect(connect({ servers: server.url, user: 'alice', pass: 'wrong' })).rejects.toThrow(/authorization/i)
    await (await connect({ servers: server.url, user: 'alice', pass: 'right' })).close()
    const varz = (await (await fetch(new URL('/varz', server.monitor))).json()) as { jetstream: { config: { sync_always?: boolean } } }
    expect(varz.jetstream.config.sync_always).toBe(true)
  })

  it('cuts off who sends a subject that is far longer than ours', async () => {
    const server = await start()
    const nc = await connect({ servers: server.url, reconnect: false })
    nc.publish('a'.repeat(1_800))
    await nc.flush()
    nc.publish('a'.repeat(2_100))
    expect(String(await nc.closed())).toMatch(/maximum control line exceeded/i)
  })

  it('says who has the folder, and where', async () => {
    const server = await start()
    const refusal = await start().catch((error: unknown) => error)
    expect(refusal).toBeInstanceOf(FolderInUse)
    expect(refusal).toMatchObject({ holder: { owner: process.pid, server: server.pid, url: server.url } })
    expect((await readdir(join(dir, 'data'))).filter((name) => name.startsWith('server.lock'))).toEqual(['server.lock'])
  })

  it('says in one line that a port is taken', async () => {
    const { port } = await start()
    const refusal = await start({ dir: join(dir, 'other'), port }).catch((error: unknown) => error)
    expect(refusal).toBeInstanceOf(ServerStartFailed)
    expect(refusal).toMatchObject({ taken: true })
    expect(String(refusal)).toMatch(/address already in use/)
    expect(String(refusal)).not.toContain('\n')
    expect(existsSync(join(dir, 'other', 'server.lock'))).toBe(false)
  })

  it('passes on what the server says of settings that it does not take', async () => {
    const refusal = await start({ config: { sync: 'sometimes' as 'always' } }).catch((error: unknown) => error)
    expect(refusal).toBeInstanceOf(ServerStartFailed)
    expect(String(refusal)).toMatch(/sync_interval|duration/i)
  })

  it('names a binary that cannot be run', async () => {
    const nothing = join(dir, 'nothing')
    await writeFile(nothing, 'no program', { mode: 0o600 })
    await expect(start({ binary: nothing })).rejects.toThrow(/nothing|Permission denied|could not be run/)
  })

  describe('and its owner', () => {
    const owner = async (script: string) => {
      const file = join(dir, 'owner.mjs')
      await writeFile(
        file,
        `import { startServer } from ${JSON.stringify(START_SERVER.href)}
         const server = await startServer({ dir: ${JSON.stringify(join(dir, 'data'))}, binary: ${JSON.stringify(binary)} })
         process.send({ event: 'started', pid: server.pid, url: server.url })
         ${script}`,
      )
      return startProcess(file)
    }
    const gone = (pid: number) => until(async () => [undefined, 'Z'].includes(await processState(pid)), { what: `server ${pid} ended` })

    it.runIf(existsSync(fileURLToPath(START_SERVER)))('end together, also by kill -9', async () => {
      await using child = await owner('setInterval(() => {}, 1000)')
      const { pid } = await child.heard('started')
      await child.kill()
      await gone(Number(pid))
      const next = await start()
      expect(next.pid).not.toBe(pid)
    })

    it.runIf(existsSync(fileURLToPath(START_SERVER)))('end together when the owner returns without stopping it', async () => {
      await using child = await owner('process.disconnect()')
      const { pid } = await child.heard('started')
      expect((await child.exited).code).toBe(0)
      await gone(Number(pid))
    })

    it.runIf(existsSync(fileURLToPath(START_SERVER)))('do not share Ctrl-C: the owner decides', async () => {
      await using child = await owner('setInterval(() => {}, 1000)')
      const { pid } = await child.heard('started')
      const session = (stat: string) => stat.replace(/^.*\) /s, '').split(' ')[3]
      const [mine, its] = await Promise.all([child.pid, Number(pid)].map((one) => readFile(`/proc/${one}/stat`, 'utf8')))
      expect(session(its ?? '')).not.toBe(session(mine ?? ''))
    })

    it('is ended first when it was left behind on the folder', async () => {
      // As where the kernel does not end it with its owner: a live server, and a lock of a process that is gone.
      const orphan = await start()
      const lock = join(dir, 'data', 'server.lock')
      const holder = JSON.parse(await readFile(lock, 'utf8')) as object
      await writeFile(lock, JSON.stringify({ ...holder, owner: 2 ** 22 + 1 }))
      const next = await start()
      expect(await orphan.exited).toEqual({ code: 0, signal: null })
      expect(next.pid).not.toBe(orphan.pid)
    })
  })
})
