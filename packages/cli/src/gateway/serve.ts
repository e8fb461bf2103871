import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { namedCredentials, openBus, type ProjectAccess, projectAccess, readTextFile, serverClock } from '@passover/bus'
import { logOptions } from '@passover/core/text'
import { CannotListen, type Listening, NeedsTokens, PortTaken, startGateway, TokenFile, TokenFileFailed } from '@passover/gateway'
import { SYSTEM } from '@passover/schemas'
import { openTracing } from '@passover/tracing'
import { pino } from 'pino'
import { z } from 'zod'
import { connectAs } from '../client.js'
import type { Context } from '../context.js'
import { CliFailure } from '../failure.js'
import { findProject, requireOwn } from '../project.js'
import { type Credentials, type ServerSetting, serversOf } from '../settings.js'

export interface ServeOptions {
  host?: string | undefined
  port?: number | undefined
  /** The file with the tokens. */
  tokens: string
}

/** Where tokens are kept: --tokens > PASSOVER_GATEWAY_TOKENS > the project's folder. CliFailure E030 where there is none of them. */
export function tokensPath({ directory, env }: Pick<Context, 'directory' | 'env'>, given: string | undefined): string {
  const named = given ?? env.PASSOVER_GATEWAY_TOKENS
  const project = named ? undefined : findProject(directory)
  const path = named ?? (project && tokensOf(requireOwn(project)))
  if (path) return path
  throw new CliFailure('E030', 'there is no place for the tokens of a gateway', {
    hint: 'name a file by --tokens or PASSOVER_GATEWAY_TOKENS; a project of passover up has one',
  })
}

/** The file with the tokens of a project's own gateway. */
export function tokensOf(project: string): string {
  return join(project, 'gateway-tokens.json')
}

const credentialsFile = z.record(z.string(), z.string())

/** Connects as a token's owner. Undefined: there are no credentials for it. */
export function ownersConnections(server: ServerSetting, env: NodeJS.ProcessEnv) {
  const named = readCredentials(env.PASSOVER_GATEWAY_CREDENTIALS)
  return (name: string) => {
    const isolated = server.project === undefined ? undefined : ownersAccess(server.project, name)
    if (isolated && !named) {
      if (!isolated.credentials) return undefined
      return openBus({ servers: serversOf(server), identity: name, name: `gateway as ${name}`, ...isolated })
    }
    const own = named ? (Object.hasOwn(named, name) ? named[name] : undefined) : undefined
    if (named && own === undefined) return undefined
    return openBus({
      servers: serversOf(server),
      identity: name,
      name: `gateway as ${name}`,
      ...credentialsOf(own, server),
      ...(server.tls ? { tls: server.tls } : {}),
    })
  }
}

/** Where agents are isolated an owner, agent or person, connects with its own credentials. `undefined`: they are not isolated. */
function ownersAccess(project: string, name: string): ProjectAccess | undefined {
  const agent = projectAccess(project, { role: 'agent', name })
  return agent?.credentials ? agent : projectAccess(project, { role: 'person', name })
}

/** A project's own server tells nobody apart, and lets all in by the project's credentials. */
function credentialsOf(own: string | undefined, server: ServerSetting): { credentials?: Credentials } {
  if (own !== undefined) return { credentials: namedCredentials(own, readTextFile, 'PASSOVER_GATEWAY_CREDENTIALS') }
  return server.credentials ? { credentials: server.credentials } : {}
}

function readCredentials(path: string | undefined): Record<string, string> | undefined {
  if (path === undefined) return undefined
  try {
    return credentialsFile.parse(JSON.parse(readFileSync(path, 'utf8')))
  } catch {
    // What is wrong with it may quote a password.
    throw new CliFailure('E030', `PASSOVER_GATEWAY_CREDENTIALS: ${path} cannot be read as JSON of names and credentials`, {
      hint: 'like {"ann": "ann:password", "alice": "SU…", "bob": "/path/to/bob.creds"}',
    })
  }
}

/**
 * Who a program of this machine reads as before the first token is made. Nobody where the server tells names apart, because agents are isolated or
 * owners have credentials of their own: an agent that runs here could read the passes of others.
 */
export function openTo(person: string, { project }: Pick<ServerSetting, 'project'>, env: NodeJS.ProcessEnv): string | undefined {
  const isolated = project !== undefined && projectAccess(project, { role: 'person', name: person })
  return isolated || env.PASSOVER_GATEWAY_CREDENTIALS ? undefined : person
}

/** Serves the HTTP API until it is disposed. CliFailure E042: the port is taken or the address none; E030: others could reach it, and nobody needs a token. */
export async function serveGateway(context: Context, server: ServerSetting, { host, port, tokens }: ServeOptions): Promise<Listening> {
  const bus = await connectAs(SYSTEM, server)
  const log = pino({ ...logOptions(), level: context.env.PASSOVER_LOG_LEVEL ?? 'warn' }, pino.destination(2))
  const connect = ownersConnections(server, context.env)
  const tracing = await openTracing({ env: context.env, service: 'passover-gateway', say: (line) => log.warn(line) })
  const deps = {
    bus,
    clock: serverClock(bus),
    log,
    connect,
    tokens: new TokenFile(tokens),
    open_to: openTo(context.person, server, context.env),
    tracing,
  }
  const gateway = startGateway(deps, { ...(host === undefined ? {} : { host }), ...(port === undefined ? {} : { port }) })
  const stop = async () => {
    await gateway[Symbol.asyncDispose]()
    await bus[Symbol.asyncDispose]()
    await tracing[Symbol.asyncDispose]()
  }
  try {
    const { url } = await gateway.listen()
    return { url, [Symbol.asyncDispose]: stop }
  } catch (error) {
    await stop()
    throw failureOf(error)
  }
}

/** What the gateway's package throws, as the command line says it. */
export function failureOf(error: unknown): unknown {
  if (error instanceof CannotListen) {
    const hint =
      error.reason === 'EACCES'
        ? 'ports below 1024 are mostly for root: choose a higher one with --port (of passover up: --http)'
        : '--host takes an address of this machine'
    return new CliFailure('E042', error.message, { hint })
  }
  if (error instanceof TokenFileFailed) {
    return new CliFailure('E030', error.message, { hint: 'another file: --tokens or PASSOVER_GATEWAY_TOKENS' })
  }
  if (error instanceof PortTaken) {
    return new CliFailure('E042', error.message, { hint: 'choose another with --port (of passover up: --http)' })
  }
  if (!(error instanceof NeedsTokens)) return error
  return new CliFailure('E030', `other machines could reach ${error.message}, and no token is needed yet`, {
    hint: 'make one first: passover gateway token add --as <person>',
  })
}
