import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { type FileHandle, mkdir, open, readFile, rename, rm, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { agentName } from '@passover/schemas'
import { z } from 'zod'
import { type Caller, SCOPES, type Scope, type Tokens } from './caller.js'

const kept = z.strictObject({
  id: z.string(),
  /** Whose name it acts under. */
  name: agentName,
  kind: z.enum(['person', 'agent']),
  scopes: z.array(z.enum(SCOPES)),
  /** SHA-256 of the token. It has 192 random bits, so that nothing slower is needed. */
  hash: z.string().regex(/^[0-9a-f]{64}$/),
  note: z.string().optional(),
  created_at: z.number(),
  expires_at: z.number().optional(),
})
const file = z.strictObject({ v: z.literal(1), tokens: z.array(kept) })
export type KeptToken = z.infer<typeof kept>

/** What may be shown of a token. */
export type ShownToken = Omit<KeptToken, 'hash'>

export interface NewToken {
  name: string
  kind: 'person' | 'agent'
  scopes: readonly Scope[]
  note?: string | undefined
  expires_at?: number | undefined
}

const FORM = /^pso_([A-Za-z0-9_-]{8})_([A-Za-z0-9_-]{32})$/
const LOCK_TRIES = 100
const LOCK_MS = 50
/** A lock that its process left behind. */
const LOCK_STALE_MS = 10_000

/** Tokens in a file that only its owner reads; a token itself stands nowhere. Changes are seen by who runs at the next request. */
export class TokenFile implements Tokens {
  #read: { mtime: number; size: number; tokens: KeptToken[] } | undefined

  constructor(
    readonly path: string,
    private readonly now: () => number = Date.now,
  ) {}

  async find(bearer: string): Promise<Caller | undefined> {
    const [, id] = FORM.exec(bearer) ?? []
    const token = id === undefined ? undefined : (await this.#tokens()).find((one) => one.id === id)
    if (!token || !timingSafeEqual(Buffer.from(token.hash, 'hex'), Buffer.from(hashOf(bearer), 'hex'))) return undefined
    if (token.expires_at !== undefined && token.expires_at <= this.now()) return undefined
    return { name: token.name, kind: token.kind, scopes: token.scopes, token: token.id }
  }

  async any(): Promise<boolean> {
    return (await this.#tokens()).length > 0
  }

  /** The file stays when its last token was revoked. */
  async ever(): Promise<boolean> {
    return (await this.any()) || (await isThere(this.path))
  }

  async list(): Promise<ShownToken[]> {
    return (await this.#tokens()).map(({ hash: _, ...shown }) => shown)
  }

  /** Gives the token, for the only time. */
  async add({ name, kind, scopes, note, expires_at }: NewToken): Promise<{ token: string; shown: ShownToken }> {
    const id = randomBytes(6).toString('base64url')
    const token = `pso_${id}_${randomBytes(24).toString('base64url')}`
    const more = { ...(note === undefined ? {} : { note }), ...(expires_at === undefined ? {} : { expires_at }) }
    const shown: ShownToken = { id, name, kind, scopes: [...scopes], created_at: this.now(), ...more }
    await this.#change((tokens) => [...tokens, { ...shown, hash: hashOf(token) }])
    return { token, shown }
  }

  /** False: there is none with that id. */
  async revoke(id: string): Promise<boolean> {
    let found = false
    await this.#change((tokens) => {
      found = tokens.some((one) => one.id === id)
      return tokens.filter((one) => one.id !== id)
    })
    return found
  }

  /** Throws where the file is there and cannot be read: nobody is let in by a file that is spoiled. */
  async #tokens(): Promise<KeptToken[]> {
    const found = await stat(this.path).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return undefined
      throw error
    })
    if (!found) return []
    if (this.#read?.mtime === found.mtimeMs && this.#read.size === found.size) return this.#read.tokens
    const { tokens } = file.parse(JSON.parse(await readFile(this.path, 'utf8')))
    this.#read = { mtime: found.mtimeMs, size: found.size, tokens }
    return tokens
  }

  async #change(change: (tokens: KeptToken[]) => KeptToken[]): Promise<void> {
    await mkdir(dirname(this.path), { recursive: true })
    const lock = await this.#lock()
    try {
      this.#read = undefined
      const tokens = change(await this.#tokens())
      const next = `${this.path}.new`
      await rm(next, { force: true })
      const handle = await open(next, 'wx', 0o600)
      await handle.writeFile(`${JSON.stringify({ v: 1, tokens }, null, 2)}\n`)
      await handle.sync()
      await handle.close()
      await rename(next, this.path)
    } finally {
      await lock.close()
      await rm(`${this.path}.lock`, { force: true })
      this.#read = undefined
    }
  }

  async #lock(): Promise<FileHandle> {
    const path = `${this.path}.lock`
    for (let tries = 0; ; tries++) {
      try {
        return await open(path, 'wx', 0o600)
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EEXIST' || tries === LOCK_TRIES) throw error
        const age = Date.now() - ((await stat(path).catch(() => undefined))?.mtimeMs ?? Date.now())
        if (age > LOCK_STALE_MS) await rm(path, { force: true })
        await new Promise((again) => setTimeout(again, LOCK_MS))
      }
    }
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
