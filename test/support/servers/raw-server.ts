import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { until } from '../processes/until.js'
import { serverBinary } from './nats-process.js'
import { freePorts } from './ports.js'

/** A server with a configuration written by hand, as an operator writes it; its store, unless said, is thrown away with it. */
export interface RawServer extends AsyncDisposable {
  url: string
  monitor: string
}

type Started = { server: RawServer } | { ended: string }

/** Somebody may take a port between its being chosen and its use. */
const TRIES = 5

export async function rawServer(config: (store: string) => string, parent = tmpdir()): Promise<RawServer> {
  for (let tries = 1; ; tries++) {
    const started = await start(config, parent)
    if ('server' in started) return started.server
    if (tries === TRIES || !started.ended.includes('address already in use')) throw new Error(`the server ended: ${started.ended}`)
  }
}

async function start(config: (store: string) => string, parent: string): Promise<Started> {
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
  const over = () => child.exitCode !== null
  await until(async () => over() || (await fetch(`${monitor}/healthz`)).ok, { what: 'the server is healthy', deadline_ms: 60_000 })
  const dispose = async () => {
    await ended(child)
    await rm(folder, { recursive: true, force: true })
  }
  if (!over()) return { server: { url: `nats://127.0.0.1:${port}`, monitor, [Symbol.asyncDispose]: dispose } }
  await dispose()
  return { ended: said }
}

async function ended(child: ChildProcess): Promise<void> {
  const exited = new Promise((resolve) => child.once('exit', resolve))
  if (child.exitCode === null && child.kill('SIGKILL')) await exited
}
