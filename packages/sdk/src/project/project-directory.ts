import { spawnSync } from 'node:child_process'
import {
  accessSync,
  chmodSync,
  constants,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { ownershipFault, type TrustIssue } from './ownership.js'
import { isSealed, missingKeyFault, sealOf } from './seal.js'
import { PROJECT_FOLDER, searchRoot } from './search.js'
import { adoptServerFile } from './server-file.js'

/** Sealed proof that this user made the folder: it covers what has no seal of its own, such as the store and the tokens. */
const MARK = 'made-here'
const MARK_TEXT = 'made-here'
/** Contents that are refused in a folder that this user did not make. */
const OWN = ['server.json', 'nats', 'auth', 'evidence.key', 'gateway-tokens.json']
const GIT_MS = 5_000

export type OwnFolder = { ok: true; folder: string } | { ok: false; fault: TrustIssue }

/**
 * Creates the project's `.passover` folder, hidden from git and from other users, or checks that this user created the one that is there.
 * A folder that came with a clone or an archive is refused: its store, keys and tokens would come from its author.
 *
 * @param adopt - The person says that what is there is theirs: it was moved, restored, or made by an older version.
 * @throws NoSealingKey; an error of the file system
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
  if (!existsSync(ignore)) writeFileSync(ignore, '*\n')
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

/** Returns why what is in a project's folder is not this user's own; `undefined` if it is. */
export function folderFault(folder: string): TrustIssue | undefined {
  const root = searchRoot(dirname(folder))
  const fault = ownershipFault(join(folder, MARK), root, 2)
  if (fault) return existsSync(join(folder, MARK)) ? fault : foreign(folder)
  if (!isMarked(folder)) return foreign(folder)
  const tracked = trackedByGit(folder, root)
  if (tracked === undefined) return undefined
  return {
    why: `git tracks ${join(PROJECT_FOLDER, tracked)}: a pull could replace what is in ${folder}`,
    hint: `git rm -r --cached ${PROJECT_FOLDER}; then commit`,
  }
}

function foreign(folder: string): TrustIssue {
  // Without the key it cannot be checked whether this user made the mark.
  const missing = existsSync(join(folder, MARK)) ? missingKeyFault(folder) : undefined
  if (missing) return missing
  return {
    why: `${folder} was not made here by you: it may have come with a repository or an archive`,
    hint: 'remove it; if the project is yours and was moved, restored, or made under another HOME or by an older version: passover up --adopt',
  }
}

function isMarked(folder: string): boolean {
  try {
    return isSealed(folder, MARK_TEXT, readFileSync(join(folder, MARK), 'utf8').trim())
  } catch {
    return false
  }
}

function mark(folder: string): void {
  const draft = join(folder, `${MARK}.${process.pid}`)
  writeFileSync(draft, `${sealOf(folder, MARK_TEXT)}\n`, { mode: 0o600 })
  renameSync(draft, join(folder, MARK))
}

/** Others may have been let in by the umask of the command that made it. */
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

/** The first file of the folder that is in git's index, below the folder. Ignored files are overwritten by a checkout without a question. */
function trackedByGit(folder: string, root: string): string | undefined {
  if (!existsSync(join(root, '.git'))) return undefined
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('GIT_')))
  // Configuration of a repository that was not cloned but unpacked could name a program as its file monitor.
  const args = ['-c', 'core.fsmonitor=false', 'ls-files', '-z', '--', '.']
  const { status, stdout } = spawnSync('git', args, { cwd: folder, env, timeout: GIT_MS, encoding: 'utf8' })
  return status === 0 ? stdout.split('\0')[0] || undefined : undefined
}
