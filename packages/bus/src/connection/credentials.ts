import { readFileSync } from 'node:fs'
import type { ConnectionOptions } from '@nats-io/transport-node'
import { credsAuthenticator, nkeyAuthenticator } from '@nats-io/transport-node'

/**
 * Credentials of a connection. `nkey` is a seed (`SU…`), `creds` the text of a credentials file. `credsFile` is the path of one, read at each
 * connection attempt: a process whose credentials were rotated reconnects with the new ones.
 */
export type Credentials = { user: string; pass: string } | { token: string } | { nkey: string } | { creds: string } | { credsFile: string }

/** Claims of a credentials file. */
export interface CredentialsFacts {
  /** Name of the user. */
  name: string
  /** Public key of the user (`U…`). */
  user: string
  /** Public key of the account (`A…`). */
  account: string
  /** Expiry time, ms since the epoch. */
  expires_at?: number
}

/** Returns the client's options for these credentials. */
export function authentication(credentials: Credentials | undefined): Pick<ConnectionOptions, 'user' | 'pass' | 'token' | 'authenticator'> {
  if (!credentials) return {}
  if ('user' in credentials) return { user: credentials.user, pass: credentials.pass }
  if ('token' in credentials) return { token: credentials.token }
  const bytes = new TextEncoder()
  if ('nkey' in credentials) return { authenticator: nkeyAuthenticator(bytes.encode(credentials.nkey)) }
  // The client's parser requires a newline after the last line, which may have been trimmed.
  if ('creds' in credentials) return { authenticator: credsAuthenticator(bytes.encode(`${credentials.creds}\n`)) }
  return { authenticator: credsAuthenticator(rereading(credentials.credsFile)) }
}

/** Paths of PEM files. */
export interface TlsFiles {
  /** Certificate authority of the server, if the machine does not trust it already. */
  ca?: string
  /** Client certificate, if the server requires one. */
  cert?: string
  key?: string
}

/** Returns the client's TLS options. With files the connection must be encrypted; without, it is if the server requires it. */
export function tlsOptions(files: TlsFiles | undefined): Pick<ConnectionOptions, 'tls'> {
  if (!files) return {}
  const { ca, cert, key } = files
  return { tls: { ...(ca ? { caFile: ca } : {}), ...(cert ? { certFile: cert } : {}), ...(key ? { keyFile: key } : {}) } }
}

/** Reads the claims of credentials without verifying them. Returns `undefined` for other kinds and for unreadable files. */
export function credentialsFacts(credentials: Credentials | undefined): CredentialsFacts | undefined {
  if (!credentials || !('creds' in credentials || 'credsFile' in credentials)) return undefined
  try {
    const text = 'creds' in credentials ? credentials.creds : readFileSync(credentials.credsFile, 'utf8')
    const token = /-----BEGIN NATS USER JWT-----\s*(\S+)/.exec(text)?.[1]
    const claims = JSON.parse(Buffer.from(token?.split('.')[1] ?? '', 'base64url').toString('utf8')) as Record<string, unknown>
    const {
      name = '',
      sub = '',
      iss = '',
      exp,
      nats,
    } = claims as { name?: string; sub?: string; iss?: string; exp?: number; nats?: object }
    const account = (nats as { issuer_account?: string } | undefined)?.issuer_account ?? iss
    return { name, user: sub, account, ...(typeof exp === 'number' && exp > 0 ? { expires_at: exp * 1_000 } : {}) }
  } catch {
    return undefined
  }
}

/** Returns a function that reads the file at each call. If the file cannot be read, it returns the last content. */
function rereading(path: string): () => Uint8Array {
  let last: Uint8Array = readFileSync(path)
  return () => {
    try {
      last = readFileSync(path)
    } catch {
      // The file is being replaced or was removed: the server decides about the last content.
    }
    return last
  }
}
