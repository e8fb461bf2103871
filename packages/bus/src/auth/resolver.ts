import { type ConnectionOptions, connect, type NatsConnection } from '@nats-io/transport-node'
import { authentication, type TlsFiles, tlsOptions } from '../connection/credentials.js'
import { BusUnreachable } from '../types/errors.js'
import type { SignedAccount } from './installation.js'
import { signDeletion } from './tokens.js'

export interface ResolverOptions {
  servers: string | string[]
  /** Credentials from issueSystemUser. */
  creds: string
  tls?: TlsFiles
  /** Timeout in ms for connecting and for each response. @defaultValue 5,000 */
  timeout_ms?: number
}

interface Answer {
  data?: { code?: number; message?: string } | string[]
  error?: { code?: number; description?: string }
}

/** A server refused an account or did not answer. */
export class ResolverError extends Error {
  override readonly name = 'ResolverError'
}

/** Manages the accounts of a running server. Changes take effect at once, on every server of a cluster, and survive restarts. */
export class AccountResolver implements AsyncDisposable {
  readonly #nc: NatsConnection
  readonly #timeout: number

  private constructor(nc: NatsConnection, timeout_ms: number) {
    this.#nc = nc
    this.#timeout = timeout_ms
  }

  /** Connects. Throws BusUnreachable if no server accepts the connection. */
  static async open({ servers, creds, tls, timeout_ms = 5_000 }: ResolverOptions): Promise<AccountResolver> {
    const options: ConnectionOptions = {
      servers,
      name: 'passover accounts',
      timeout: timeout_ms,
      ...authentication({ creds }),
      ...tlsOptions(tls),
    }
    try {
      return new AccountResolver(await connect(options), timeout_ms)
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error)
      const hint = 'Check that the server runs with isolated accounts and that its operator belongs to this installation.'
      throw new BusUnreachable(`cannot manage accounts at ${[servers].flat().join(', ')}: ${message}`, hint, error)
    }
  }

  /** Adds an account, or replaces its permissions, revocations and expiry. */
  async push(jwt: string): Promise<void> {
    await this.#ask('$SYS.REQ.CLAIMS.UPDATE', jwt)
  }

  /** Deletes accounts: their connections are closed, and their credentials are refused. */
  async remove(accounts: string[], operator: SignedAccount): Promise<void> {
    await this.#ask('$SYS.REQ.CLAIMS.DELETE', await signDeletion(operator, accounts))
  }

  /** Returns the ids of the server's accounts. */
  async list(): Promise<string[]> {
    const { data } = await this.#ask('$SYS.REQ.CLAIMS.LIST', '')
    return Array.isArray(data) ? data : []
  }

  /** Returns the server's token of an account, or `undefined` if it has none. */
  async lookup(id: string): Promise<string | undefined> {
    const reply = await this.#request(`$SYS.REQ.ACCOUNT.${id}.CLAIMS.LOOKUP`, '')
    return reply === '' ? undefined : reply
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#nc.close()
  }

  async #ask(subject: string, body: string): Promise<Answer> {
    const answer = JSON.parse(await this.#request(subject, body)) as Answer
    if (answer.error) throw new ResolverError(`the server refused: ${answer.error.description ?? `code ${answer.error.code}`}`)
    return answer
  }

  async #request(subject: string, body: string): Promise<string> {
    try {
      return (await this.#nc.request(subject, body, { timeout: this.#timeout })).string()
    } catch (error) {
      throw new ResolverError(`${subject}: ${error instanceof Error ? error.message : String(error)}`, { cause: error })
    }
  }
}
