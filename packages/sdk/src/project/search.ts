import { existsSync, lstatSync, realpathSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { ownershipFault, type TrustIssue } from './ownership.js'
import { readSealed, type ServerFile, serverFilePath } from './server-file.js'

export const PROJECT_FOLDER = '.passover'

/** A project with a trusted server file. */
export interface FoundProject {
  /** The `.passover` folder. */
  folder: string
  /** The file that names the server. */
  path: string
  file: ServerFile
}

/** A file that was found but is not trusted. */
export interface IgnoredFile extends TrustIssue {
  path: string
}

export interface ProjectSearch {
  project: FoundProject | undefined
  ignored: IgnoredFile[]
}

/**
 * Returns the outermost directory whose project files apply to `from`: the root of its repository (the nearest directory with `.git`), or `from`
 * itself outside of a repository. If `from` is below the home directory, the result is never the home directory or above it: a repository of dotfiles
 * is not the repository of everything below it.
 */
export function searchRoot(from: string, home = process.env.HOME || homedir()): string {
  const start = realPath(from)
  const bound = realPath(home)
  for (let at = start; ; at = dirname(at)) {
    if (at === bound && at !== start) return start
    if (existsSync(join(at, '.git'))) return at
    if (dirname(at) === at) return start
  }
}

/**
 * Yields files with these names from a directory upward to the search root, nearest first, each with the reason if it is not trusted.
 *
 * @param strict - As for `ownershipFault`.
 */
export function* filesUpward(from: string, names: string[], strict = 0): Generator<{ path: string; fault: TrustIssue | undefined }> {
  const root = searchRoot(from)
  for (let at = realPath(from); ; at = dirname(at)) {
    for (const path of names.map((name) => join(at, name))) if (isThere(path)) yield { path, fault: ownershipFault(path, root, strict) }
    if (at === root) return
  }
}

/** Finds the nearest project with a trusted server file. Files that are not trusted are listed with the remedy. */
export function searchProject(from: string): ProjectSearch {
  const ignored: IgnoredFile[] = []
  for (const { path, fault } of filesUpward(from, [join(PROJECT_FOLDER, 'server.json')], 2)) {
    const folder = dirname(path)
    if (fault) {
      ignored.push({ path, ...fault })
      continue
    }
    const read = readSealed(folder)
    if (read.kind === 'ok') return { project: { folder, path: serverFilePath(folder), file: read.file }, ignored }
    if (read.kind === 'refused') ignored.push({ path, ...read.fault })
  }
  return { project: undefined, ignored }
}

/** Returns a line about a file that was ignored. */
export function ignoredText({ path, why, hint }: IgnoredFile): string {
  return `Ignored ${path}: ${why}. ${hint}`
}

/**
 * Returns true if the path exists. A path in a directory that another user made inaccessible counts as existing, so that it is reported and not
 * skipped.
 */
function isThere(path: string): boolean {
  try {
    lstatSync(path)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EACCES'
  }
}

function realPath(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    return resolve(path)
  }
}
