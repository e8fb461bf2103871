/** Restrictions that a pass puts on its command. */
export interface Restrictions {
  /** The command must not change the directory (can_modify_files is false, or the constraint read_only). */
  read_only: boolean
  /** The command must not reach anything outside of itself (the constraint no_external_calls). */
  no_network: boolean
}

/** Bubblewrap: read-only mounts, a PID namespace with its own /proc, and a network namespace with a socket filter. */
export interface Bubblewrap {
  kind: 'bubblewrap'
  version: string
  /** Whether a network namespace can be made. */
  network: boolean
  /** Whether `--tmpfs` takes a size (0.7.0 and later). */
  sized: boolean
  /** Whether coreutils `env` can restore signals: without it SIGTERM ends the command like SIGKILL. */
  graceful: boolean
  /** The seccomp program of `no_external_calls`, undefined where the processor is not known. */
  filter: Buffer | undefined
}

/** The `unshare` of util-linux: the same namespaces, but no filter for sockets, and devices and other mounts stay as they are. */
export interface Unshare {
  kind: 'unshare'
  /** As root directly, otherwise in a user namespace. */
  mode: 'root' | 'user'
  network: boolean
  /** Why bubblewrap is not used. */
  why: string
}

/** No namespaces: a process group, and detection afterwards. */
export interface Unconfined {
  kind: 'none'
  why: string
}

export type Mechanism = Bubblewrap | Unshare | Unconfined

/** Descriptor from which bubblewrap reads the socket filter. Descriptor 3 is the gate of launch.ts. */
export const FILTER_FD = 4
