import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { appendFile, mkdir, readFile } from 'node:fs/promises'
import { dirname, join, sep } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { stateFolder } from './user-folders.js'

/** Number of hexadecimal digits of a SHA-256. */
const SUM_LENGTH = 64

/** A nats-server in the cache differs from the one that was installed there. */
export class ServerChanged extends Error {
  override readonly name = 'ServerChanged'
  constructor(path: string, found: string, records: string) {
    super(
      [
        `${path} was changed after Passover installed it and is not started: its SHA-256 is ${found}, which differs from the one in ${records}.`,
        `Another program may have replaced it. Remove ${dirname(path)} to have it installed again; if you replaced it yourself, remove ${records}.`,
      ].join('\n'),
    )
  }
}

/**
 * Records the SHA-256 of each nats-server installed in the cache. Kept in the user's state folder, so that a program that can write only the cache
 * cannot make `passover up` run another server. The file has the format of `sha256sum`. Lines are only appended, so that concurrent installations do
 * not lose each other's.
 */
export class ServerChecksums {
  readonly #records: string
  readonly #say: (message: string) => void

  constructor(env: NodeJS.ProcessEnv, say: (message: string) => void) {
    this.#records = join(stateFolder(env), 'nats-server.sha256')
    this.#say = say
  }

  /**
   * Compares a server in the cache folder with its records. `no_records`: there is none for that folder, so an earlier version without records
   * installed it. `unrecorded`: Passover installed other servers there, but not this one.
   *
   * @throws ServerChanged
   */
  async check(path: string, cache: string): Promise<'installed' | 'unrecorded' | 'no_records'> {
    const lines = await this.#lines()
    if (!lines.some((line) => line.slice(SUM_LENGTH).startsWith(`  ${join(cache, sep)}`))) return 'no_records'
    if (!lines.some((line) => line.slice(SUM_LENGTH) === `  ${path}`)) return 'unrecorded'
    const found = await sha256OfFile(path)
    if (!lines.includes(`${found}  ${path}`)) throw new ServerChanged(path, found, this.#records)
    return 'installed'
  }

  /** Records the checksum of a file under the path to which it will be moved, and returns the checksum. */
  async record(file: string, path = file): Promise<string> {
    const sum = await sha256OfFile(file)
    const line = `${sum}  ${path}`
    if ((await this.#lines()).includes(line)) return sum
    try {
      await mkdir(dirname(this.#records), { recursive: true, mode: 0o700 })
      await appendFile(this.#records, `${line}\n`, { mode: 0o600, flush: true })
    } catch (error) {
      this.#say(`the checksum of nats-server cannot be stored in ${this.#records} (${(error as NodeJS.ErrnoException).code})`)
    }
    return sum
  }

  async #lines(): Promise<string[]> {
    try {
      return (await readFile(this.#records, 'utf8')).split('\n')
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
      throw error
    }
  }
}

/** Returns the SHA-256 of a file in hexadecimal digits. */
export async function sha256OfFile(path: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(path), hash)
  return hash.digest('hex')
}
