import type { ClusterSettings } from '@passover/nats-server'

/** Address of a server. It stays the same when the server is restarted. */
export interface ServerHome {
  host: string
  port: number
  /** Absent if there is only one server. */
  cluster?: ClusterSettings
  /** The nats-server binary, or a script that runs it in the server's namespace. */
  binary: string
}

/** Restores a disturbed link. */
export type RestoreLink = () => Promise<void>

export type LinkTrouble = { kind: 'cut' } | { kind: 'slow'; delay_ms: number; bytes_per_s: number }

/** The servers, the parties (groups of processes that share a connection to the servers), and the links between them. */
export interface Network extends AsyncDisposable {
  readonly kind: 'namespaces' | 'loopback'
  home(server: string): ServerHome
  /** Returns the addresses of all servers as seen by a party. The connection of `runner` is never disturbed. */
  servers(party: string): string[]
  /** Wraps a command so that it runs in the network of a party. */
  launch(party: string, command: readonly string[]): readonly string[]
  /** Disturbs the link between two ends. `cut` affects both directions; `slow` may affect only what the first end sends. */
  trouble(ends: readonly [string, string], how: LinkTrouble): Promise<RestoreLink>
}

export interface NetworkOptions {
  servers: readonly string[]
  parties: readonly string[]
  /** The nats-server binary to run. */
  binary: string
  /** Folder for files of the network. */
  dir: string
}

export const CLUSTER_NAME = 'passover-chaos'
