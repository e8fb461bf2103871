/** What a command resolves before it knows whether it connects at all: without the NATS client, which takes longer to load than the rest. */

export { stateFolder } from '@passover/nats-server/user-folders'
export type { Credentials, TlsFiles } from './credentials.js'
export { readTextFile, signInFromEnvironment, tlsFromEnvironment } from './environment.js'
export { parseServers, SettingError } from './server-address.js'
