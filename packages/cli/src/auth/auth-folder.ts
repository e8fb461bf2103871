import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { acquireFileLock, authorityPath, credentialsPath } from '@passover/bus'
import { CliFailure } from '../errors.js'
import { type AuthRecords, type PrincipalRecord, parseRecords } from './principal-records.js'
import { writePrivateFile } from './private-file.js'

const KEYS = 'keys.json'
const LOCK_PREFIX = 'lock-'
const LOCK_ATTEMPTS = 200
const LOCK_RETRY_DELAY_MS = 50

/**
 * The folder `.passover/auth`: `keys.json` (all keys and records), `creds/` (one credentials file for each principal), `accounts/` (agents'
 * accounts for the project's own server) and `tls/`. Folders have mode 0700, files 0600.
 */
export class AuthFolder {
  readonly path: string

  constructor(path: string) {
    this.path = path
  }

  /** True if the folder contains the keys of an installation. */
  get exists(): boolean {
    return existsSync(this.keys)
  }

  /** Folder in which a server keeps the accounts pushed to it. */
  get accounts(): string {
    return join(this.path, 'accounts')
  }

  get tls(): string {
    return join(this.path, 'tls')
  }

  /** Certificate authority that clients verify the server with. */
  get authority(): string {
    return authorityPath(this.path)
  }

  get keys(): string {
    return join(this.path, KEYS)
  }

  /** Returns the path of a principal's credentials file. */
  credentials(record: Pick<PrincipalRecord, 'name' | 'role'>): string {
    return credentialsPath(this.path, record)
  }

  /** Reads the records. Throws CliFailure E030 if there is no installation or its file is unreadable. */
  read(): AuthRecords {
    if (!this.exists) throw new CliFailure('E030', `there are no keys in ${this.path}`, { hint: 'to create them: passover auth init' })
    const records = parseRecords(readFileSync(this.keys, 'utf8'))
    if (records) return records
    throw new CliFailure('E030', `${this.keys} is not a valid key file of \`passover auth\``, { hint: 'restore it from a backup' })
  }

  /** Writes the records of a new installation. Throws CliFailure E030 if one exists. */
  create(records: AuthRecords): void {
    if (this.exists)
      throw new CliFailure('E030', `${this.path} already has the keys of an installation`, {
        hint: 'to create a new installation, move that folder away first',
      })
    for (const folder of [this.path, this.accounts, join(this.path, 'creds')]) mkdirSync(folder, { recursive: true, mode: 0o700 })
    this.#write(records)
  }

  /** Changes the records, one process at a time. If `body` throws, nothing is written. */
  async change<T>(body: (records: AuthRecords) => Promise<T>): Promise<T> {
    await using _lock = await this.#lock()
    const records = this.read()
    const result = await body(records)
    this.#write(records)
    return result
  }

  writeCredentials(record: PrincipalRecord, text: string): string {
    const path = this.credentials(record)
    writePrivateFile(path, text)
    return path
  }

  removeCredentials(record: PrincipalRecord): void {
    rmSync(this.credentials(record), { force: true })
  }

  /** Stores an account where the project's own server loads it when it starts. */
  writeAccount({ id, jwt }: { id: string; jwt: string }): void {
    writePrivateFile(join(this.accounts, `${id}.jwt`), jwt)
  }

  #write(records: AuthRecords): void {
    writePrivateFile(this.keys, `${JSON.stringify(records, null, 2)}\n`)
  }

  async #lock(): Promise<AsyncDisposable> {
    const folder = { names: () => readdir(this.path), at: (name: string) => join(this.path, name) }
    for (let tries = 0; ; tries++) {
      const lock = await acquireFileLock({ folder, prefix: LOCK_PREFIX }, randomBytes(12).toString('hex'))
      if (!('held_by' in lock)) return lock
      if (tries >= LOCK_ATTEMPTS)
        throw new CliFailure('E014', `process ${lock.held_by} is changing ${this.path}`, { hint: 'try again when it has finished' })
      await new Promise((again) => setTimeout(again, LOCK_RETRY_DELAY_MS * (0.5 + Math.random())))
    }
  }
}
