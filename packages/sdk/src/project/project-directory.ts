import { spawnSync } from 'node:child_process'
import { accessSync, chmodSync, constants, existsSync, lstatSync, mkdirSync, realpathSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { readRegularFileSync } from '@passover/bus/settings'
import { ownershipFault, type TrustIssue } from './ownership.js'
import { isSealed, missingKeyFault, sealOf } from './seal.js'
import { PROJECT_FOLDER, searchRoot } from './search.js'
import { adoptServerFile } from './server-file.js'

/**
 * Name of the file that proves, by its seal, that this user created the folder. It covers files without a seal of their own, such as the store and
 * the tokens.
 */
const MARK = 'made-here'
const MARK_TEXT = 'made-here'
/** Files that are not trusted in a folder that this user did not create. */
const OWN = ['server.json', 'nats', 'auth', 'evidence.key', 'gateway-tokens.json']
const GIT_MS = 5_000
/** Maximum size of the mark in bytes. The file may come from a repository. */
const MAX_MARK_BYTES = 1_024

export type OwnFolder = { ok: true; folder: string } | { ok: false; fault: TrustIssue }

/**
 * Creates the project's `.passover` folder, hidden from git and inaccessible to other users, or checks that this user created an existing one. A
 * folder that came with a clone or an archive is refused: its store, keys and tokens would come from its author.
 *
 * @param adopt - True if the person confirms that the existing contents are theirs: they were moved, restored, or created by an older version.
 * @throws NoSealingKey, or an error of the file system.
 */
export function ownFolder(directory: string, adopt = false): OwnFolder {
  const given = join(resolve(directory), PROJECT_FOLDER)
  mkdirSync(resolve(directory), { recursive: true })
  const folder = join(realpathSync(directory), PROJECT_FOLDER)
  const link = isLink(folder)
  if (link) return { ok: false, fault: { why: `${given} is a symbolic link`, hint: `replace ${given} with what it points to` } }
  const before = existsSync(folder)
  if (!before) mkdirSync(folder, { recursive: true, mode: 0o700 })
  const ignore = join(folder, '.gitignore')
  // Not through a link to a file that does not exist.
  if (!existsSync(ignore)) writeFileSync(ignore, '*\n', { flag: 'wx' })
  accessSync(folder, constants.W_OK | constants.X_OK)
  const isOwn = !before || isMarked(folder)
  if (!isOwn && !adopt && OWN.some((name) => existsSync(join(folder, name)))) return { ok: false, fault: foreign(folder) }
  if (!isOwn) {
    restrict(folder)
    if (adopt) adoptServerFile(folder)
  }
  if (!isOwn || !before) mark(folder)
  const fault = folderFault(folder)
  return fault ? { ok: false, fault } : { ok: true, folder }
}

/** Returns the reason why the contents of a project's folder are not this user's own, or `undefined` if they are. */
export function folderFault(folder: string): TrustIssue | undefined {
  const root = searchRoot(dirname(folder))
  const fault = ownershipFault(join(folder, MARK), root, 2)
  if (fault) return existsSync(join(folder, MARK)) ? fault : foreign(folder)
  if (!isMarked(folder)) return foreign(folder)
  const tracked = trackedByGit(folder, root)
  if (tracked === undefined) return undefined
  return {
    why: `git tracks ${join(PROJECT_FOLDER, tracked)}: a pull could replace the content of ${folder}`,
    hint: `run git rm -r --cached ${PROJECT_FOLDER}, then commit`,
  }
}

function foreign(folder: string): TrustIssue {
  // Without the key it is unknown whether this user created the mark.
  const missing = existsSync(join(folder, MARK)) ? missingKeyFault(folder) : undefined
  if (missing) return missing
  return {
    why: `${folder} was not created here by you: it may have come with a repository or an archive`,
    hint: 'remove it; if the project is yours and was moved, restored, or created under another HOME or by an older version: passover up --adopt',
  }
}

function isMarked(folder: string): boolean {
  try {
    return isSealed(folder, MARK_TEXT, readRegularFileSync(join(folder, MARK), { max: MAX_MARK_BYTES }).toString().trim())
  } catch {
    return false
  }
}

function mark(folder: string): void {
  const draft = join(folder, `${MARK}.${process.pid}`)
  writeFileSync(draft, `${sealOf(folder, MARK_TEXT)}\n`, { mode: 0o600 })
  renameSync(draft, join(folder, MARK))
}

/** Removes access for others, which the umask of the command that created the folder may have granted. */
function restrict(folder: string): void {
  if (process.geteuid !== undefined && lstatSync(folder).uid === process.geteuid()) chmodSync(folder, 0o700)
}

function isLink(path: string): boolean {
  try {
    return lstatSync(path).isSymbolicLink()
  } catch {
    return false
  }
}

/** Returns the first file of the folder that is in git's index, relative to the folder. A checkout overwrites ignored files without asking. */
function trackedByGit(folder: string, root: string): string | undefined {
  if (!existsSync(join(root, '.git'))) return undefined
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('GIT_')))
  // The configuration of a repository that was unpacked and not cloned could name a program as its file monitor.
  const args = ['-c', 'core.fsmonitor=false', 'ls-files', '-z', '--', '.']
  const { status, stdout } = spawnSync('git', args, { cwd: folder, env, timeout: GIT_MS, encoding: 'utf8' })
  return status === 0 ? stdout.split('\0')[0] || undefined : undefined
}
