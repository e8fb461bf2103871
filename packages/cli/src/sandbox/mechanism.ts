/** Restrictions that a pass puts on its command. */
export interface Restrictions {
  /** True if the command must not change the directory (can_modify_files is false, or the constraint read_only). */
  read_only: boolean
  /** True if the command must not reach anything outside of itself (the constraint no_external_calls). */
  no_network: boolean
}

/** Bubblewrap: read-only mounts, a PID namespace with its own /proc, and a network namespace with a socket filter. */
export interface Bubblewrap {
  kind: 'bubblewrap'
  version: string
  /** True if a network namespace can be created. */
  network: boolean
  /** True if `--tmpfs` accepts a size (0.7.0 and later). */
  sized: boolean
  /** True if coreutils `env` can restore signals; otherwise SIGTERM ends the command like SIGKILL. */
  graceful: boolean
  /** Seccomp program for `no_external_calls`; undefined for an unknown processor. */
  filter: Buffer | undefined
}

/** The `unshare` of util-linux: the same namespaces, but without a socket filter, and devices and other mounts are not restricted. */
export interface Unshare {
  kind: 'unshare'
  /** `root` if run directly as root, `user` if in a user namespace. */
  mode: 'root' | 'user'
  network: boolean
  /** Reason why bubblewrap is not used. */
  why: string
}

/** No namespaces: only a process group, and detection of changes afterwards. */
export interface Unconfined {
  kind: 'none'
  why: string
}

export type Mechanism = Bubblewrap | Unshare | Unconfined

/** Descriptor from which bubblewrap reads the socket filter. Descriptor 3 is the gate of launch.ts. */
export const FILTER_FD = 4
