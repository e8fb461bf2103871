import { readFileSync } from 'node:fs'
import { namedCredentials, openBus, type ProjectAccess, projectAccess, readTextFile } from '@passover/bus'
import { z } from 'zod'
import { type Credentials, type ServerSetting, serverUrls } from '../connection/settings.js'
import { CliFailure } from '../errors.js'

const credentialsFile = z.record(z.string(), z.string())

/** Returns a function that connects as a token's owner, or returns `undefined` if there are no credentials for that owner. */
export function connectAsOwner(server: ServerSetting, env: NodeJS.ProcessEnv) {
  const named = readCredentials(env.PASSOVER_GATEWAY_CREDENTIALS)
  return (name: string) => {
    const isolated = server.project === undefined ? undefined : ownerAccess(server.project, name)
    if (isolated && !named) {
      if (!isolated.credentials) return undefined
      return openBus({ servers: serverUrls(server), identity: name, name: `gateway as ${name}`, ...isolated })
    }
    const own = named ? (Object.hasOwn(named, name) ? named[name] : undefined) : undefined
    if (named && own === undefined) return undefined
    return openBus({
      servers: serverUrls(server),
      identity: name,
      name: `gateway as ${name}`,
      ...credentialsOf(own, server),
      ...(server.tls ? { tls: server.tls } : {}),
    })
  }
}

/** Returns the credentials with which an owner (agent or person) connects if agents are isolated, otherwise `undefined`. */
function ownerAccess(project: string, name: string): ProjectAccess | undefined {
  const agent = projectAccess(project, { role: 'agent', name })
  return agent?.credentials ? agent : projectAccess(project, { role: 'person', name })
}

/** Returns the owner's credentials, or those of the project, whose own server does not distinguish names. */
function credentialsOf(own: string | undefined, server: ServerSetting): { credentials?: Credentials } {
  if (own !== undefined) return { credentials: namedCredentials(own, readTextFile, 'PASSOVER_GATEWAY_CREDENTIALS') }
  return server.credentials ? { credentials: server.credentials } : {}
}

function readCredentials(path: string | undefined): Record<string, string> | undefined {
  if (path === undefined) return undefined
  try {
    return credentialsFile.parse(JSON.parse(readFileSync(path, 'utf8')))
  } catch {
    // The parse error is left out, because it may quote a password.
    throw new CliFailure('E030', `PASSOVER_GATEWAY_CREDENTIALS: ${path} is not a JSON object of names and credentials`, {
      hint: 'like {"ann": "ann:password", "alice": "SU…", "bob": "/path/to/bob.creds"}',
    })
  }
}
