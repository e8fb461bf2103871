import type { ConnectionOptions } from '@nats-io/transport-node'
import { credsAuthenticator, nkeyAuthenticator } from '@nats-io/transport-node'

/** How a connection proves who it is. */
export type Credentials = { user: string; pass: string } | { token: string } | { nkey: string } | { creds: string }

/** `nkey` is a seed (`SU…`), `creds` the text of a credentials file. */
export function authentication(credentials: Credentials | undefined): Pick<ConnectionOptions, 'user' | 'pass' | 'token' | 'authenticator'> {
  if (!credentials) return {}
  if ('user' in credentials) return { user: credentials.user, pass: credentials.pass }
  if ('token' in credentials) return { token: credentials.token }
  const bytes = new TextEncoder()
  if ('nkey' in credentials) return { authenticator: nkeyAuthenticator(bytes.encode(credentials.nkey)) }
  return { authenticator: credsAuthenticator(bytes.encode(credentials.creds)) }
}

/** Paths of PEM files. */
export interface TlsFiles {
  /** Of the authority that signed the server's certificate, where the machine does not know it. */
  ca?: string
  /** Of the client, where the server asks for them. */
  cert?: string
  key?: string
}

/** With files given the connection must be encrypted; without, it is when the server asks for it. */
export function tlsOptions(files: TlsFiles | undefined): Pick<ConnectionOptions, 'tls'> {
  if (!files) return {}
  const { ca, cert, key } = files
  return { tls: { ...(ca ? { caFile: ca } : {}), ...(cert ? { certFile: cert } : {}), ...(key ? { keyFile: key } : {}) } }
}
