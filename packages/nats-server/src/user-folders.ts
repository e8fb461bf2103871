import { homedir } from 'node:os'
import { join } from 'node:path'

/** Returns `<XDG state>/passover`, the folder for data of the user, not of a project. Commands of `passover work` cannot write to it. */
export function stateFolder(env: NodeJS.ProcessEnv = process.env): string {
  return join(env.XDG_STATE_HOME || join(env.HOME || homedir(), '.local', 'state'), 'passover')
}

/** Returns `<XDG cache>/passover/nats-server`, which contains one folder per version. */
export function cacheFolder(env: NodeJS.ProcessEnv): string {
  const base = env.XDG_CACHE_HOME || (process.platform === 'win32' ? env.LOCALAPPDATA : undefined) || join(env.HOME || homedir(), '.cache')
  return join(base, 'passover', 'nats-server')
}
