/**
 * @passover/nats-server: finds, fetches and runs a nats-server.
 *
 * I1  Nothing is run that is not what was published: the official release by its checksum, Debian's package by its signature, and what is in the
 *     cache by the checksum that was recorded when it was installed.
 * I2  One server a data folder. A server whose owner is gone is ended before another one starts on its folder.
 * I3  Nothing is installed outside of the user's cache, and nothing needs root.
 */

export { ServerChanged } from './checksums.js'
export type { ClusterSettings, OperatorSettings, Permissions, ServerSettings, ServerUser } from './config.js'
export { serverConfig } from './config.js'
export { FolderInUse, type Holder } from './data-folder-lock.js'
export { type ServerExit, ServerStartFailed } from './readiness.js'
export {
  type BinaryOptions,
  OLDEST_SERVER,
  resolveServerBinary,
  type ServerBinary,
  ServerUnavailable,
  serverVersion,
} from './resolve-binary.js'
export { type RunningServer, type ServerOptions, startServer } from './start-server.js'
export { cacheFolder } from './user-folders.js'
