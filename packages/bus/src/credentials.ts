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
