import { type AccessFor, type Bus, BusUnreachable, openBus } from '@passover/bus'
import { SYSTEM } from '@passover/schemas'
import { CliFailure } from '../errors.js'
import type { Context } from './context.js'
import { credentialsFor } from './credentials.js'
import { type ServerSetting, serverUrls } from './settings.js'

const CONNECT_TIMEOUT_MS = 3_000

/** Connects as the acting person. Throws CliFailure E040 if there is no server, or none that admits them. */
export function connectPerson(context: Context): Promise<Bus> {
  return connectAs(context.person, context.server())
}

/** Connects under a name. `prefix` selects another namespace. Throws CliFailure E040, with a hint on what to do, if the server cannot be reached. */
export async function connectAs(identity: string, server: ServerSetting, prefix?: string): Promise<Bus> {
  try {
    return await openBus({
      servers: serverUrls(server),
      identity,
      timeout_ms: CONNECT_TIMEOUT_MS,
      ...(prefix === undefined ? {} : { prefix }),
      ...credentialsFor(server, accessFor(identity)),
    })
  } catch (error) {
    throw unreachableError(error, server)
  }
}

/** Returns the role to connect with. Services sign as `passover`; the gateway is the only one of them that connects through this function. */
function accessFor(identity: string): AccessFor {
  return { role: identity === SYSTEM ? 'gateway' : 'person', name: identity }
}

/**
 * Converts an unreachable-server error to CliFailure E040, which says which server was tried, what named it, and how to get one. Returns
 * other errors unchanged.
 */
export function unreachableError(error: unknown, server: ServerSetting): unknown {
  if (!(error instanceof BusUnreachable)) return error
  const named = { flag: 'set by --server', environment: 'set by the environment', project: `of ${server.project}` }[server.origin]
  const hint = server.origin === 'project' && !error.refused ? 'to start it again: passover up' : error.hint
  return new CliFailure('E040', `cannot reach the server at ${server.url} (${named}): ${error.message}`, { hint })
}
