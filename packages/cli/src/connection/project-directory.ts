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
} from '@passover/sdk/internal/project'
import { CliFailure } from '../errors.js'

export type { ServerFile }

/** Returns the nearest `.passover` folder, searching upward from `from` within its repository, whose server file is trusted. */
export function findProject(from: string): string | undefined {
  return searchProject(from).project?.folder
}

/**
 * Finds a project of this user in a folder above. It is not used from here, because the search ends at the root of a repository; it is only
 * mentioned to people, never read.
 *
 * @returns the folder to pass to `--directory`
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

/**
 * True if the process that holds the project has not yet written all addresses that it serves. A file left by an earlier process says
 * nothing about it.
 */
export function isStarting(file: ServerFile | undefined, pid: number): boolean {
  return file?.pid !== pid || file.health === undefined
}

/** Creates a project's folder, or checks that this user made it. Throws CliFailure E030 if it cannot be written or is not trusted. */
export function createProject(directory: string, adopt = false): string {
  const made = sealing(() => {
    try {
      return ownFolder(directory, adopt)
    } catch (error) {
      if (!isNodeError(error)) throw error
      const hint = 'run the command as the owner of the folder, or in your own folder: --directory <path>'
      throw new CliFailure('E030', `${directory}/.passover cannot be used: ${error.message}`, { hint })
    }
  })
  if (made.ok) return made.folder
  throw distrusted(made.fault)
}

/** Checks that a project's folder, with its store, keys and tokens, is this user's own. Throws CliFailure E030 if not. */
export function requireOwnProject(folder: string): string {
  const fault = folderFault(folder)
  if (fault) throw distrusted(fault)
  return folder
}

function distrusted({ why, hint }: TrustIssue): CliFailure {
  return new CliFailure('E030', `not trusted: ${why}`, { hint })
}

/** Reads `server.json`. Throws CliFailure E030 if it cannot be read or was not written here by this user's own `up`. */
export function readServerFile(folder: string): ServerFile | undefined {
  const read = readSealed(folder)
  if (read.kind === 'refused') throw distrusted(read.fault)
  return read.kind === 'ok' ? read.file : undefined
}

/** Writes `server.json`, sealed. Throws CliFailure E030 if this user cannot store a sealing key. */
export function writeServerFile(folder: string, file: ServerFile): void {
  sealing(() => writeSealed(folder, file))
}

function sealing<T>(body: () => T): T {
  try {
    return body()
  } catch (error) {
    if (!(error instanceof NoSealingKey)) throw error
    throw new CliFailure('E030', `a project needs a key file outside of its folder: ${error.message}`, {
      hint: 'set XDG_STATE_HOME, and XDG_CACHE_HOME for the downloaded server, to folders that you can write',
    })
  }
}

export function isNodeError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && 'code' in error
}
