import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { mkdir, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { acquireFileLock } from '@passover/bus'
import { agentName } from '@passover/schemas'
import { z } from 'zod'
import { TokenFileError } from '../http/problem.js'
import { type Caller, SCOPES, type Scope, type Tokens } from './caller.js'

const kept = z.strictObject({
  id: z.string(),
  /** Name that the token acts under. */
  name: agentName,
  kind: z.enum(['person', 'agent']),
  scopes: z.array(z.enum(SCOPES)),
  /** SHA-256 of the token. The token has 192 random bits, so a slow password hash is not needed. */
  hash: z.string().regex(/^[0-9a-f]{64}$/),
  note: z.string().optional(),
  created_at: z.number(),
  expires_at: z.number().optional(),
})
const file = z.strictObject({ v: z.literal(1), tokens: z.array(kept) })
export type KeptToken = z.infer<typeof kept>

/** Public fields of a token, without its hash. */
export type ShownToken = Omit<KeptToken, 'hash'>

export interface NewToken {
  name: string
  kind: 'person' | 'agent'
  scopes: readonly Scope[]
  note?: string | undefined
  expires_at?: number | undefined
}

const TOKEN_FORMAT = /^pso_([A-Za-z0-9_-]{8})_([A-Za-z0-9_-]{32})$/
/**
 * Time limit for acquiring the lock, in milliseconds. Not a number of retries: a busy machine makes few of them in a long time, and many
 * contenders take the lock from one another.
 */
const LOCK_TIMEOUT_MS = 30_000
/** Minimum milliseconds between two tries. Random jitter is added so that contenders do not collide again and again. */
const LOCK_RETRY_MIN_MS = 20
const LOCK_RETRY_JITTER_MS = 60
/** Age after which a lock whose owner cannot be checked (in another container) counts as stale. A change takes only some milliseconds. */
const STALE_LOCK_MS = 30_000

/** Stores hashes of tokens in a file readable only by its owner. Running gateways see changes at the next request. Throws TokenFileError. */
export class TokenFile implements Tokens {
  readonly #now: () => number
  #read: { mtime: number; size: number; tokens: KeptToken[] } | undefined

  constructor(
    readonly path: string,
    now: () => number = Date.now,
  ) {
    this.#now = now
  }

  async find(bearer: string): Promise<Caller | undefined> {
    const [, id] = TOKEN_FORMAT.exec(bearer) ?? []
    const token = id === undefined ? undefined : (await this.#tokens()).find((one) => one.id === id)
    if (!token || !timingSafeEqual(Buffer.from(token.hash, 'hex'), Buffer.from(hashOf(bearer), 'hex'))) return undefined
    if (token.expires_at !== undefined && token.expires_at <= this.#now()) return undefined
    return { name: token.name, kind: token.kind, scopes: token.scopes, token: token.id }
  }

  async any(): Promise<boolean> {
    return (await this.#tokens()).length > 0
  }

  /** Still true after the last token is revoked, because the file remains. */
  async ever(): Promise<boolean> {
    return (await this.any()) || (await isThere(this.path))
  }

  async list(): Promise<ShownToken[]> {
    return (await this.#tokens()).map(({ hash: _, ...shown }) => shown)
  }

  /** Creates a token and returns it; it cannot be read again later. */
  async add({ name, kind, scopes, note, expires_at }: NewToken): Promise<{ token: string; shown: ShownToken }> {
    const id = randomBytes(6).toString('base64url')
    const token = `pso_${id}_${randomBytes(24).toString('base64url')}`
    const more = { ...(note === undefined ? {} : { note }), ...(expires_at === undefined ? {} : { expires_at }) }
    const shown: ShownToken = { id, name, kind, scopes: [...scopes], created_at: this.#now(), ...more }
    await this.#change((tokens) => [...tokens, { ...shown, hash: hashOf(token) }])
    return { token, shown }
  }

  /** Revokes the token with this id. Returns false if there is none. */
  async revoke(id: string): Promise<boolean> {
    return (await this.#revoke((one) => one.id === id)).length > 0
  }

  /** Revokes every token that acts under this name and returns their ids. Does not write the file if there are none. */
  async revokeAllOf(name: string): Promise<string[]> {
    const acts = (one: KeptToken) => one.name === name
    return (await this.#tokens()).some(acts) ? this.#revoke(acts) : []
  }

  async #revoke(chosen: (token: KeptToken) => boolean): Promise<string[]> {
    let ids: string[] = []
    await this.#change((tokens) => {
      ids = tokens.filter(chosen).map(({ id }) => id)
      return tokens.filter((one) => !chosen(one))
    })
    return ids
  }

  async stands({ token, name, kind, scopes }: Caller): Promise<boolean> {
    const kept = (await this.#tokens()).find(({ id }) => id === token)
    if (!kept || kept.name !== name || kept.kind !== kind || scopes.some((scope) => !kept.scopes.includes(scope))) return false
    return kept.expires_at === undefined || kept.expires_at > this.#now()
  }

  /** Reads the tokens. Throws TokenFileError if the file exists and cannot be read. */
  async #tokens(): Promise<KeptToken[]> {
    const found = await stat(this.path).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return undefined
      throw this.#failed('cannot be accessed', error)
    })
    if (!found) return []
    if (this.#read?.mtime === found.mtimeMs && this.#read.size === found.size) return this.#read.tokens
    const text = await readFile(this.path, 'utf8').catch((error: unknown) => {
      throw this.#failed('cannot be read', error)
    })
    const tokens = keptIn(text)
    if (!tokens) throw new TokenFileError(this.path, 'is not a token file')
    this.#read = { mtime: found.mtimeMs, size: found.size, tokens }
    return tokens
  }

  #failed(what: string, error: unknown): TokenFileError {
    return new TokenFileError(this.path, `${what} (${(error as NodeJS.ErrnoException).code ?? String(error)})`)
  }

  async #change(change: (tokens: KeptToken[]) => KeptToken[]): Promise<void> {
    await using _lock = await this.#lock()
    this.#read = undefined
    const tokens = change(await this.#tokens())
    try {
      await this.#replace(`${JSON.stringify({ v: 1, tokens }, null, 2)}\n`)
    } catch (error) {
      throw this.#failed('cannot be written', error)
    } finally {
      this.#read = undefined
    }
  }

  /** Replaces the file atomically. */
  async #replace(text: string): Promise<void> {
    const next = `${this.path}.new`
    await rm(next, { force: true })
    const handle = await open(next, 'wx', 0o600)
    await handle.writeFile(text)
    await handle.sync()
    await handle.close()
    await rename(next, this.path)
  }

  async #lock(): Promise<AsyncDisposable> {
    const folder = dirname(this.path)
    const contending = {
      folder: { names: () => readdir(folder), at: (name: string) => join(folder, name) },
      prefix: `${basename(this.path)}.lock-`,
      foreign_ms: STALE_LOCK_MS,
    }
    try {
      await mkdir(folder, { recursive: true })
      const until = performance.now() + LOCK_TIMEOUT_MS
      for (;;) {
        const lock = await acquireFileLock(contending, randomBytes(12).toString('hex'))
        if (!('held_by' in lock)) return lock
        if (performance.now() > until) break
        await new Promise((again) => setTimeout(again, LOCK_RETRY_MIN_MS + Math.random() * LOCK_RETRY_JITTER_MS))
      }
    } catch (error) {
      throw this.#failed('cannot be written', error)
    }
    throw new TokenFileError(this.path, 'has been locked by another process for too long; try again')
  }
}

function keptIn(text: string): KeptToken[] | undefined {
  try {
    return file.parse(JSON.parse(text)).tokens
  } catch {
    return undefined
  }
}

function isThere(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  )
}

function hashOf(token: string): string {
  return createHash('sha256').update(token).digest('hex')
}
