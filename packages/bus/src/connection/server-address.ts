import type { Credentials } from './credentials.js'

/** A setting (flag, variable or option) with an invalid value. The message never contains a secret. */
export class SettingError extends Error {
  override readonly name = 'SettingError'
  readonly hint: string
  constructor(message: string, hint: string) {
    super(message)
    this.hint = hint
  }
}

/** Server addresses, and the credentials that the addresses contain. */
export interface ServerAddresses {
  /** `nats://host:port`, without user and password. */
  servers: string[]
  credentials?: Credentials
}

const SCHEMES = new Set(['nats:', 'tls:', 'ws:', 'wss:'])
const EXAMPLE =
  'an address looks like nats://127.0.0.1:4222, several are separated by commas; an IPv6 address is in brackets: nats://[::1]:4222'
/** Matches addresses that cannot contain a part of a password. */
const SHOWABLE = /^(?:[a-z]{2,5}:\/\/)?[\w.[\]-]{0,253}(?::\d{0,6})?\/?$/i

/**
 * Parses addresses of NATS servers: one, or several separated by commas, each with or without `nats://`. They may contain user and password (or a
 * token), percent-encoded, which must be the same in all.
 *
 * @param by - Source of the value (flag, variable or option), for error messages.
 * @throws SettingError
 */
export function parseServers(given: string | readonly string[], by: string): ServerAddresses {
  const texts = [given]
    .flat()
    .flatMap((one) => one.split(','))
    .map((one) => one.trim())
    .filter((one) => one !== '')
  if (texts.length === 0) throw new SettingError(`${by}: no server is named`, EXAMPLE)
  // A comma in a password also splits the text, so that the part before it is not a valid address.
  const hint = texts.some((text) => text.includes('@')) ? ENCODED : EXAMPLE
  const parsed = texts.map((text, index) => parseServer(text, { by, hint, which: texts.length > 1 ? ` number ${index + 1}` : ' it' }))
  const signing = new Map(parsed.flatMap(({ credentials }) => (credentials ? [[JSON.stringify(credentials), credentials] as const] : [])))
  if (signing.size > 1)
    throw new SettingError(
      `${by}: its addresses have different users or passwords`,
      'use the same user and password in all addresses, or in only one',
    )
  const [credentials] = signing.values()
  return { servers: parsed.map(({ server }) => server), ...(credentials && { credentials }) }
}

/** Returns an address without its credentials, for messages. */
export function withoutSecrets(address: string): string {
  return address.replace(/\/\/[^/]*@/, '//')
}

interface About {
  by: string
  /** Describes the address when its text may contain a secret. */
  which: string
  hint: string
}

function parseServer(text: string, { by, which, hint }: About): { server: string; credentials?: Credentials } {
  const shown = SHOWABLE.test(text) ? ` "${text}"` : which
  const withScheme = text.includes('://') ? text : `nats://${text}`
  if (!URL.canParse(withScheme)) throw new SettingError(`${by}:${shown} is not a server address`, hint)
  const url = new URL(withScheme)
  const host = `${url.protocol}//${url.host}`
  if (!SCHEMES.has(url.protocol))
    throw new SettingError(`${by}: ${host} is not a NATS address`, `set ${by} to an address such as nats://127.0.0.1:4222`)
  if (!url.hostname) throw new SettingError(`${by}:${shown} has no host`, EXAMPLE)
  // An unencoded `/`, `?` or `#` in a password ends the host, so that the rest of the password is parsed as path, query or fragment.
  if (/^(nats|tls):$/.test(url.protocol) && (!['', '/'].includes(url.pathname) || url.search || url.hash))
    throw new SettingError(`${by}:${which} has text after host and port`, hint)
  const user = decoded(url.username, by)
  const pass = decoded(url.password, by)
  if (user === '' && pass !== '') throw new SettingError(`${by}:${which} has a password but no user`, EXAMPLE)
  const credentials: Credentials | undefined = user === '' ? undefined : pass === '' ? { token: user } : { user, pass }
  return { server: host, ...(credentials && { credentials }) }
}

function decoded(text: string, by: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw new SettingError(`${by}: the user or password in it has a % that is not percent-encoded`, ENCODED)
  }
}

const ENCODED = 'in an address, write % as %25, @ as %40, / as %2F, # as %23, a comma as %2C; or set NATS_USER and NATS_PASSWORD'
