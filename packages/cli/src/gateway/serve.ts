import { join } from 'node:path'
import { projectAccess, serverClock } from '@passover/bus'
import { logOptions } from '@passover/core/text'
import { ListenError, type Listening, NeedsTokensError, PortTakenError, startGateway, TokenFile, TokenFileError } from '@passover/gateway'
import { SYSTEM } from '@passover/schemas'
import { openTracing } from '@passover/tracing'
import { pino } from 'pino'
import { connectAs } from '../connection/connect-person.js'
import type { Context } from '../connection/context.js'
import { findProject, requireOwnProject } from '../connection/project-directory.js'
import type { ServerSetting } from '../connection/settings.js'
import { CliFailure } from '../errors.js'
import { connectAsOwner } from './owner-connections.js'

export interface ServeOptions {
  host?: string | undefined
  port?: number | undefined
  /** The file with the tokens. */
  tokens: string
}

/** Where tokens are kept: --tokens > PASSOVER_GATEWAY_TOKENS > the project's folder. CliFailure E030 where there is none of them. */
export function resolveTokensFile({ directory, env }: Pick<Context, 'directory' | 'env'>, given: string | undefined): string {
  const named = given ?? env.PASSOVER_GATEWAY_TOKENS
  const project = named ? undefined : findProject(directory)
  const path = named ?? (project && projectTokensFile(requireOwnProject(project)))
  if (path) return path
  throw new CliFailure('E030', 'there is no place for the tokens of a gateway', {
    hint: 'name a file by --tokens or PASSOVER_GATEWAY_TOKENS; a project of passover up has one',
  })
}

/** The file with the tokens of a project's own gateway. */
export function projectTokensFile(project: string): string {
  return join(project, 'gateway-tokens.json')
}

/**
 * Who a program of this machine reads as before the first token is made. Nobody where the server tells names apart, because agents are isolated or
 * owners have credentials of their own: an agent that runs here could read the passes of others.
 */
export function personWithoutToken(
  person: string,
  { project }: Pick<ServerSetting, 'project'>,
  env: NodeJS.ProcessEnv,
): string | undefined {
  const isolated = project !== undefined && projectAccess(project, { role: 'person', name: person })
  return isolated || env.PASSOVER_GATEWAY_CREDENTIALS ? undefined : person
}

/** Serves the HTTP API until it is disposed. CliFailure E042: the port is taken or the address none; E030: others could reach it, and nobody needs a token. */
export async function serveGateway(context: Context, server: ServerSetting, { host, port, tokens }: ServeOptions): Promise<Listening> {
  const bus = await connectAs(SYSTEM, server)
  const log = pino({ ...logOptions(), level: context.env.PASSOVER_LOG_LEVEL ?? 'warn' }, pino.destination(2))
  const connect = connectAsOwner(server, context.env)
  const tracing = await openTracing({ env: context.env, service: 'passover-gateway', say: (line) => log.warn(line) })
  const deps = {
    bus,
    clock: serverClock(bus),
    log,
    connect,
    tokens: new TokenFile(tokens),
    open_to: personWithoutToken(context.person, server, context.env),
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
    throw gatewayFailure(error)
  }
}

/** What the gateway's package throws, as the command line says it. */
export function gatewayFailure(error: unknown): unknown {
  if (error instanceof ListenError) {
    const hint =
      error.reason === 'EACCES'
        ? 'ports below 1024 are mostly for root: choose a higher one with --port (of passover up: --http)'
        : '--host takes an address of this machine'
    return new CliFailure('E042', error.message, { hint })
  }
  if (error instanceof TokenFileError) {
    return new CliFailure('E030', error.message, { hint: 'another file: --tokens or PASSOVER_GATEWAY_TOKENS' })
  }
  if (error instanceof PortTakenError) {
    return new CliFailure('E042', error.message, { hint: 'choose another with --port (of passover up: --http)' })
  }
  if (!(error instanceof NeedsTokensError)) return error
  return new CliFailure('E030', `other machines could reach ${error.message}, and no token is needed yet`, {
    hint: 'make one first: passover gateway token add --as <person>',
  })
}
