/**
 * @passover/nats-server: finds, downloads and runs a nats-server.
 *
 * I1  Only published servers are run: the official release is verified by its checksum, Debian's package by its signature, and a server in the
 *     cache by the checksum recorded at its installation.
 * I2  A data folder has one server. A server whose owner no longer runs is stopped before another one starts on its folder.
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
