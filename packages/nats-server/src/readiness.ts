import { readFileSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'

export interface ServerExit {
  code: number | null
  signal: NodeJS.Signals | null
}

/** The server ended before it was ready, or was not ready in time. `taken` is true if its port is in use. */
export class ServerStartFailed extends Error {
  override readonly name = 'ServerStartFailed'
  constructor(
    message: string,
    readonly log: string,
    readonly taken: boolean,
  ) {
    super(message)
  }
}

export interface Ports {
  port: number
  monitor?: string
}

interface Waiting {
  dir: string
  pid: number
  exited: Promise<ServerExit>
  log: string
  /** Size of the log before this start. */
  logged: number
  timeout_ms: number
}

/** Waits until the server has written the file with its addresses, which it does once it accepts connections. */
export async function untilReady({ dir, pid, exited, log, logged, timeout_ms }: Waiting): Promise<Ports> {
  const file = join(dir, `nats-server_${pid}.ports`)
  const deadline = Date.now() + timeout_ms
  let ended = false
  void exited.then(() => {
    ended = true
  })
  while (!ended && Date.now() < deadline) {
    const ports = readPorts(file)
    if (ports) {
      rmSync(file, { force: true })
      return ports
    }
    await new Promise((again) => setTimeout(again, 10))
  }
  const said = readFileSync(log, 'utf8').slice(logged)
  const taken = said.includes('address already in use')
  const worst = said.split('\n').filter((line) => /\[(FTL|ERR)\]|^nats-server:/.test(line))
  const why = (worst.length > 0 ? worst : said.trimEnd().split('\n').slice(-3))
    .map((line) => line.replace(/^\[\d+\] \S+ \S+ /, ''))
    .join(' ')
  throw new ServerStartFailed(
    `nats-server ${ended ? 'exited immediately' : `did not answer within ${timeout_ms} ms`}: ${why.slice(0, 1_000) || 'it printed nothing'} (log: ${log})`,
    log,
    taken,
  )
}

function readPorts(file: string): Ports | undefined {
  try {
    const { nats, monitoring } = JSON.parse(readFileSync(file, 'utf8')) as { nats?: string[]; monitoring?: string[] }
    const port = Number(new URL(nats?.[0] ?? '').port)
    return { port, ...(monitoring?.[0] ? { monitor: monitoring[0] } : {}) }
  } catch {
    return undefined
  }
}

/** Reads the server's INFO line. Throws if JetStream is off. */
export async function handshake(host: string, port: number, timeout_ms = 5_000): Promise<{ version: string; name: string }> {
  const socket = connect({ host, port })
  const timer = setTimeout(() => socket.destroy(new Error(`no greeting from ${host}:${port} within ${timeout_ms} ms`)), timeout_ms)
  try {
    let text = ''
    for await (const chunk of socket) {
      text += String(chunk)
      if (text.includes('\r\n')) break
    }
    const info = JSON.parse(/^INFO (.*)\r\n/.exec(text)?.[1] ?? '{}') as { version?: string; server_name?: string; jetstream?: boolean }
    if (!info.version) throw new Error(`the server at ${host}:${port} is not a NATS server`)
    if (!info.jetstream) throw new Error(`JetStream is disabled on the server at ${host}:${port}`)
    return { version: info.version, name: info.server_name ?? '' }
  } finally {
    clearTimeout(timer)
    socket.destroy()
  }
}
