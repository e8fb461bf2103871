/** What a command resolves before it knows whether it connects at all: without the NATS client, which takes longer to load than the rest. */

export { stateFolder } from '@passover/nats-server/user-folders'
export { readTextFile, signInFromEnvironment, tlsFromEnvironment } from './config-from-env.js'
export type { Credentials, TlsFiles } from './connection/credentials.js'
export { parseServers, SettingError } from './connection/server-address.js'
