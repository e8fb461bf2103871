import { existsSync, lstatSync, type Stats } from 'node:fs'
import { dirname } from 'node:path'

/** Reason why a file is not trusted, and the remedy. */
export interface TrustIssue {
  why: string
  hint: string
}

const OTHERS_WRITE = 0o002
const GROUP_WRITES = 0o020
const STICKY = 0o1000

/**
 * Returns the reason why another user could have created this file or could change it, or `undefined` if only this user and root can. The file and
 * the directories up to and including `root` must belong to the user or to root, as for git's `safe.directory` check, and must not be writable by
 * others. No symbolic link is followed: `root` must be a real path, and a link below it is not trusted. Systems without user ids (Windows) are not
 * checked.
 *
 * @param strict - Number of innermost path components (1: the file, 2: its directory too) that no other user may write. The others may be writable by
 * the user's primary group, which many distributions create for each user.
 */
export function ownershipFault(file: string, root: string, strict = 0): TrustIssue | undefined {
  if (process.geteuid === undefined) return undefined
  for (let at = file, depth = 0; ; at = dirname(at), depth += 1) {
    const fault = faultOf(at, { isFile: depth === 0, strict: depth < strict })
    if (fault) return fault
    if (at === root || at === dirname(at)) return undefined
  }
}

function faultOf(path: string, { isFile, strict }: { isFile: boolean; strict: boolean }): TrustIssue | undefined {
  let stats: Stats
  try {
    stats = lstatSync(path)
  } catch (error) {
    return { why: `${path} cannot be read (${(error as NodeJS.ErrnoException).code})`, hint: 'run the command as the owner of the project' }
  }
  if (stats.isSymbolicLink()) {
    if (existsSync(path)) return { why: `${path} is a symbolic link`, hint: `replace ${path} with what it points to` }
    return { why: `${path} is a symbolic link that leads nowhere`, hint: `remove ${path}` }
  }
  if (!(isFile ? stats.isFile() : stats.isDirectory()))
    return { why: `${path} is not a ${isFile ? 'regular file' : 'directory'}`, hint: `remove ${path}` }
  if (!isTrustedOwner(stats.uid))
    return {
      why: `${path} belongs to another user (uid ${stats.uid})`,
      hint: 'work in a directory of your own, or name the server with --server or NATS_URL',
    }
  const bits = writableBits(stats, strict)
  return bits === undefined ? undefined : { why: `other users can write ${path}`, hint: `chmod ${bits} ${path}` }
}

/** Returns true for the user, root, and, for root under sudo, the user who called it, as git does. */
function isTrustedOwner(uid: number): boolean {
  const own = process.geteuid?.()
  return uid === own || uid === 0 || (own === 0 && process.env.SUDO_UID !== undefined && uid === Number(process.env.SUDO_UID))
}

/** Returns the permission bits to remove, or `undefined` if no other user can replace or change the file or directory. */
function writableBits({ mode, gid }: Stats, strict: boolean): string | undefined {
  if (strict) return (mode & (OTHERS_WRITE | GROUP_WRITES)) === 0 ? undefined : 'go-w'
  // In a sticky directory such as /tmp, others can add files but not replace those of this user.
  if (mode & STICKY) return undefined
  if (mode & OTHERS_WRITE) return 'go-w'
  return mode & GROUP_WRITES && gid !== process.getegid?.() ? 'g-w' : undefined
}
