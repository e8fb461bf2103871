import { realpathSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import {
  folderFault,
  NoSealingKey,
  ownFolder,
  PROJECT_FOLDER,
  readSealed,
  type ServerFile,
  searchProject,
  type TrustIssue,
  writeServerFile as writeSealed,
} from '@passover/sdk/project'
import { CliFailure } from '../errors.js'

export type { ServerFile }

/** The nearest `.passover` folder from `from` upward, within its repository, whose server file is trusted. */
export function findProject(from: string): string | undefined {
  return searchProject(from).project?.folder
}

/**
 * Finds a project of this user in a folder above that is not used from here, because the search ends at the root of a repository. It is only
 * named to people, never read.
 *
 * @returns the folder that `--directory` takes
 */
export function findProjectAbove(from: string): string | undefined {
  const own = process.getuid?.()
  for (let at = realpathSync(from); dirname(at) !== at; at = dirname(at)) {
    const folder = join(dirname(at), PROJECT_FOLDER)
    const stats = statSync(join(folder, 'server.json'), { throwIfNoEntry: false })
    if (stats?.isFile() && (own === undefined || stats.uid === own)) return dirname(at)
  }
  return undefined
}

/** Whether a process that holds the project has not written yet all that it serves: what one before it left says nothing of this one. */
export function isStarting(file: ServerFile | undefined, pid: number): boolean {
  return file?.pid !== pid || file.health === undefined
}

/** Makes a project's folder, or checks that this user made it. CliFailure E030 where it may not be written or is not trusted. */
export function createProject(directory: string, adopt = false): string {
  const made = sealing(() => {
    try {
      return ownFolder(directory, adopt)
    } catch (error) {
      if (!isNodeError(error)) throw error
      const hint = 'run it as the user that the folder belongs to, or in a folder of your own: --directory <path>'
      throw new CliFailure('E030', `${directory}/.passover cannot be used: ${error.message}`, { hint })
    }
  })
  if (made.ok) return made.folder
  throw distrusted(made.fault)
}

/** CliFailure E030 where what is in a project's folder is not this user's own: its store, keys and tokens. */
export function requireOwnProject(folder: string): string {
  const fault = folderFault(folder)
  if (fault) throw distrusted(fault)
  return folder
}

function distrusted({ why, hint }: TrustIssue): CliFailure {
  return new CliFailure('E030', `not trusted: ${why}`, { hint })
}

/** Reads `server.json`. CliFailure E030 when it cannot be read or is not what this user's own `up` wrote here. */
export function readServerFile(folder: string): ServerFile | undefined {
  const read = readSealed(folder)
  if (read.kind === 'refused') throw distrusted(read.fault)
  return read.kind === 'ok' ? read.file : undefined
}

/** Writes `server.json`, sealed. CliFailure E030 where this user can keep no key. */
export function writeServerFile(folder: string, file: ServerFile): void {
  sealing(() => writeSealed(folder, file))
}

function sealing<T>(body: () => T): T {
  try {
    return body()
  } catch (error) {
    if (!(error instanceof NoSealingKey)) throw error
    throw new CliFailure('E030', `a project needs a key of its user outside of it: ${error.message}`, {
      hint: 'set XDG_STATE_HOME, and XDG_CACHE_HOME for the server that is fetched, to folders that you can write',
    })
  }
}

export function isNodeError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && 'code' in error
}
