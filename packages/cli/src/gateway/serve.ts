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
  /** Path of the token file. */
  tokens: string
}

/** Returns the path of the token file: --tokens > PASSOVER_GATEWAY_TOKENS > the project's folder. Throws CliFailure E030 if none is set. */
export function resolveTokensFile({ directory, env }: Pick<Context, 'directory' | 'env'>, given: string | undefined): string {
  const named = given ?? env.PASSOVER_GATEWAY_TOKENS
  const project = named ? undefined : findProject(directory)
  const path = named ?? (project && projectTokensFile(requireOwnProject(project)))
  if (path) return path
  throw new CliFailure('E030', 'no token file is configured for the gateway', {
    hint: 'set it with --tokens or PASSOVER_GATEWAY_TOKENS; a project of passover up has a token file',
  })
}

/** Returns the path of the token file of a project's own gateway. */
export function projectTokensFile(project: string): string {
  return join(project, 'gateway-tokens.json')
}

/**
 * Returns the person as whom requests from this machine may read before the first token is created. Returns `undefined` if the server distinguishes
 * names (isolated agents, or owners with their own credentials), because a local agent could then read the passes of others.
 */
export function personWithoutToken(
  person: string,
  { project }: Pick<ServerSetting, 'project'>,
  env: NodeJS.ProcessEnv,
): string | undefined {
  const isolated = project !== undefined && projectAccess(project, { role: 'person', name: person })
  return isolated || env.PASSOVER_GATEWAY_CREDENTIALS ? undefined : person
}

/**
 * Serves the HTTP API until it is disposed of. Throws CliFailure E042 if the port is taken or the address is invalid, and E030 if other machines
 * could reach it and there are no tokens.
 */
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

/** Maps errors of the gateway package to CLI errors. */
export function gatewayFailure(error: unknown): unknown {
  if (error instanceof ListenError) {
    const hint =
      error.reason === 'EACCES'
        ? 'ports below 1024 usually require root: choose a higher port with --port (for passover up: --http)'
        : 'set --host to an address of this machine'
    return new CliFailure('E042', error.message, { hint })
  }
  if (error instanceof TokenFileError) {
    return new CliFailure('E030', error.message, { hint: 'set another file with --tokens or PASSOVER_GATEWAY_TOKENS' })
  }
  if (error instanceof PortTakenError) {
    return new CliFailure('E042', error.message, { hint: 'choose another port with --port (for passover up: --http)' })
  }
  if (!(error instanceof NeedsTokensError)) return error
  return new CliFailure('E030', `other machines could reach ${error.message} without a token, because no token exists yet`, {
    hint: 'create a token first: passover gateway token add --as <person>',
  })
}
