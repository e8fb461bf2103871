import { homedir } from 'node:os'
import { join } from 'node:path'

/** Returns `<XDG state>/passover`: what belongs to a user, not to a project. Commands of `passover work` cannot write it. */
export function stateFolder(env: NodeJS.ProcessEnv = process.env): string {
  return join(env.XDG_STATE_HOME || join(env.HOME || homedir(), '.local', 'state'), 'passover')
}
