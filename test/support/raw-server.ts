import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { serverBinary } from './nats-process.js'
import { freePorts } from './ports.js'
import { until } from './until.js'

/** A server with a configuration written by hand, as an operator writes it; its store, unless said, is thrown away with it. */
export interface RawServer extends AsyncDisposable {
  url: string
  monitor: string
}

export async function rawServer(config: (store: string) => string, parent = tmpdir()): Promise<RawServer> {
  const folder = await mkdtemp(join(parent, 'passover-raw-'))
  const [port, http] = await freePorts(2)
  const file = join(folder, 'nats.conf')
  await writeFile(file, `server_name: raw\nhost: 127.0.0.1\nport: ${port}\nhttp: "127.0.0.1:${http}"\n${config(folder)}\n`)
  const child = spawn(await serverBinary(), ['-c', file], { stdio: ['ignore', 'ignore', 'pipe'] })
  let said = ''
  child.stderr?.on('data', (text) => {
    said += String(text)
  })
  const monitor = `http://127.0.0.1:${http}`
  const healthy = async () => {
    if (child.exitCode !== null) throw new Error(`the server ended: ${said}`)
    return (await fetch(`${monitor}/healthz`)).ok
  }
  await until(healthy, { what: `the server is healthy (${said})`, deadline_ms: 30_000 })
  return {
    url: `nats://127.0.0.1:${port}`,
    monitor,
    async [Symbol.asyncDispose]() {
      await ended(child)
      await rm(folder, { recursive: true, force: true })
    },
  }
}

async function ended(child: ChildProcess): Promise<void> {
  const exited = new Promise((resolve) => child.once('exit', resolve))
  if (child.exitCode === null && child.kill('SIGKILL')) await exited
}
