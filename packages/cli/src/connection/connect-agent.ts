import { PassOverError } from '@passover/core'
import { type Agent, connect } from '@passover/sdk'
import { CliFailure } from '../errors.js'
import { unreachableError } from './connect-person.js'
import { credentialsFor } from './credentials.js'
import { type ServerSetting, serverUrls } from './settings.js'

/** Connects as an agent. Throws CliFailure E040, with a hint on what to do, if the server cannot be reached. */
export async function connectAgent(
  name: string,
  server: ServerSetting,
  about: { directory: string; session_id?: string | undefined },
): Promise<Agent> {
  try {
    return await connect({
      agent: name,
      servers: serverUrls(server),
      directory: about.directory,
      ...credentialsFor(server, { role: 'agent', name }),
      ...(about.session_id ? { sessionId: about.session_id } : {}),
    })
  } catch (error) {
    const known = unreachableError(error, server)
    if (known instanceof Error && 'code' in known && known.code === 'E040' && !(known instanceof CliFailure)) {
      const mend = known instanceof PassOverError ? known.context?.mend : undefined
      const usual = server.origin === 'project' ? 'to start it again: passover up' : 'passover doctor shows details'
      throw new CliFailure('E040', known.message, { hint: typeof mend === 'string' ? mend : usual })
    }
    throw known
  }
}
