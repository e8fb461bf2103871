import { existsSync } from 'node:fs'
import { dirname } from 'node:path'

/** Reasons why a file cannot be read, by system error code. */
const REASONS: Record<string, string> = {
  ENOENT: 'file not found',
  ENOTDIR: 'a component of the path is a file, not a folder',
  ENAMETOOLONG: 'its name is too long',
  ELOOP: 'its symbolic links form a loop',
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  EISDIR: 'it is a folder',
  ENOTEMPTY: 'it is a folder with files in it',
  EEXIST: 'a file with this name exists',
  EROFS: 'its file system is read-only',
  ENOSPC: 'no space left on the device',
  EMFILE: 'too many files are open',
  ENFILE: 'too many files are open',
  EIO: 'the disk reports a read error',
  ENXIO: 'the device does not exist',
}

/** Errors that are not about the path. */
const PROCESS_ERRORS = new Set(['EMFILE', 'ENFILE'])

/** Describes why a file cannot be read or written. Returns `undefined` for an error that is not a system error. */
export function fileErrorReason(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('syscall' in error) || !('code' in error) || typeof error.code !== 'string') return undefined
  return REASONS[error.code] ?? error.code
}

/** Describes a path that cannot be used, without a text for errors that are not about a path, such as those of a program that cannot be started. */
export function pathFault(error: unknown): string | undefined {
  const { code, syscall = 'spawn', path, dest } = (error ?? {}) as NodeJS.ErrnoException & { dest?: string }
  const named = dest ?? path
  const why = code !== undefined && !PROCESS_ERRORS.has(code) ? REASONS[code] : undefined
  if (!(error instanceof Error) || named === undefined || why === undefined || syscall.startsWith('spawn')) return undefined
  const folder = dirname(named)
  return code === 'ENOENT' && !existsSync(folder) ? `${folder} cannot be used: folder not found` : `${named} cannot be used: ${why}`
}
