/** Settings that a command reads before it connects. Imports no NATS client, which takes longer to load than everything else. */

export { stateFolder } from '@passover/nats-server/user-folders'
export { readTextFile, signInFromEnvironment, tlsFromEnvironment } from './config-from-env.js'
export type { Credentials, TlsFiles } from './connection/credentials.js'
export { FileRefused, readRegularFileSync } from './connection/regular-file.js'
export { parseServers, SettingError } from './connection/server-address.js'
