import { hostname } from 'node:os'
import { BusUnreachable, nodeRandom, openBus, readTextFile, serverClock } from '@passover/bus'
import { PassOverError } from '@passover/core'
import { outputSchemas } from '@passover/validation'
import { type Agent, createAgent } from './agent.js'
import { findProjectServer } from './project.js'
import { type ConnectOptions, resolveSettings, type Settings } from './settings.js'

/**
 * Connects as an agent: the sdk's main, the only place that makes a connection, a clock and randomness.
 * Settings: argument > environment > the project's `.passover/` > nats://127.0.0.1:4222. E005 for the name, E040 without a server.
 */
export async function connect(options: string | ConnectOptions = {}): Promise<Agent> {
  const given = typeof options === 'string' ? { agent: options } : options
  const cwd = process.cwd()
  const project = findProjectServer(given.directory ?? cwd)
  const settings = resolveSettings(given, { env: process.env, cwd, project, readFile: readTextFile })
  const bus = await open(settings)
  const say = (line: string) => void process.stderr.write(`${line}\n`)
  const deps = {
    bus,
    clock: serverClock(bus),
    random: nodeRandom,
    say,
    servers: settings.servers,
    process: { host: hostname(), pid: process.pid },
    schemas: outputSchemas(),
  }
  return createAgent(deps, {
    directory: settings.directory,
    auto_apply: settings.auto_apply,
    describes: given.describes,
    session_id: settings.session_id,
    notify: given.notify,
  })
}

async function open(settings: Settings) {
  const { agent, servers, credentials, prefix } = settings
  try {
    return await openBus({ servers, identity: agent, ...(credentials && { credentials }), ...(prefix !== undefined && { prefix }) })
  } catch (error) {
    if (!(error instanceof BusUnreachable)) throw error
    throw new PassOverError('E040', `${error.message}. ${error.hint}`, { servers, from: settings.source })
  }
}
