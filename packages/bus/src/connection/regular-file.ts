import { closeSync, constants, fstatSync, openSync, readFileSync, type Stats } from 'node:fs'
import { open } from 'node:fs/promises'

const { O_NOFOLLOW = 0, O_NONBLOCK = 0, O_RDONLY } = constants

/** The path leads to something that is not read: a symbolic link, a device, a FIFO, a folder, or a file above the limit. */
export class FileRefused extends Error {
  override readonly name = 'FileRefused'

  constructor(
    readonly path: string,
    readonly why: string,
  ) {
    super(`${path} ${why}`)
  }
}

export interface RegularFileOptions {
  /** Maximum size in bytes. */
  max: number
  /** Set if a symbolic link may lead to the file. */
  links?: 'followed'
}

/**
 * Reads a file that may have come from somebody else, with a repository or an archive. Unlike `readFile`, it neither waits for a writer of a FIFO nor
 * reads a device without an end.
 *
 * @throws FileRefused, or the system's error, for example ENOENT
 */
export async function readRegularFile(path: string, options: RegularFileOptions): Promise<Buffer> {
  await using file = await open(path, flagsOf(options)).catch((error: unknown) => refuseLink(path, error))
  refuseOthers(path, await file.stat(), options)
  return await file.readFile()
}

/** The same as {@link readRegularFile}, synchronously. */
export function readRegularFileSync(path: string, options: RegularFileOptions): Buffer {
  const file = openFile(path, options)
  try {
    refuseOthers(path, fstatSync(file), options)
    return readFileSync(file)
  } finally {
    closeSync(file)
  }
}

function openFile(path: string, options: RegularFileOptions): number {
  try {
    return openSync(path, flagsOf(options))
  } catch (error) {
    return refuseLink(path, error)
  }
}

/** `O_NONBLOCK` has no effect on files. Opening a FIFO without it blocks until there is a writer. */
function flagsOf({ links }: RegularFileOptions): number {
  return O_RDONLY | O_NONBLOCK | (links === 'followed' ? 0 : O_NOFOLLOW)
}

function refuseLink(path: string, error: unknown): never {
  const code = (error as NodeJS.ErrnoException).code
  if (code === 'ELOOP') throw new FileRefused(path, 'is a symbolic link')
  // A socket, or a device without a driver.
  if (code === 'ENXIO' || code === 'ENODEV') throw new FileRefused(path, 'is not a regular file')
  throw error
}

function refuseOthers(path: string, stats: Stats, { max }: RegularFileOptions): void {
  if (!stats.isFile()) throw new FileRefused(path, 'is not a regular file')
  if (stats.size > max) throw new FileRefused(path, `has more than ${max} bytes`)
}
