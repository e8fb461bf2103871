import type { ClusterSettings } from '@passover/nats-server'

/** Where a server lives. The same over its restarts. */
export interface ServerHome {
  host: string
  port: number
  /** Left out where there is one server. */
  cluster?: ClusterSettings
  /** What runs nats-server there; a script where it takes one to get there. */
  binary: string
}

/** Undoes a trouble. */
export type RestoreLink = () => Promise<void>

export type LinkTrouble = { kind: 'cut' } | { kind: 'slow'; delay_ms: number; bytes_per_s: number }

/** Servers, and parties (groups of processes that share a way to the servers), and the links between them. */
export interface Network extends AsyncDisposable {
  readonly kind: 'namespaces' | 'loopback'
  home(server: string): ServerHome
  /** Addresses of all servers as a party reaches them. `runner` is on nobody's way and never troubled. */
  servers(party: string): string[]
  /** What is to be run so that a program runs where the party is. */
  launch(party: string, command: readonly string[]): readonly string[]
  /** Troubles the link between two ends, both ways. */
  trouble(ends: readonly [string, string], how: LinkTrouble): Promise<RestoreLink>
}

export interface NetworkOptions {
  servers: readonly string[]
  parties: readonly string[]
  /** The nats-server to run. */
  binary: string
  /** A folder of its own. */
  dir: string
}

export const CLUSTER_NAME = 'passover-chaos'
