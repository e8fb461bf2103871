/** All faults: those of single processes, those of servers and links, and those that make the stream grow. */
export const PROCESS_FAULTS = ['kill', 'freeze'] as const
export const CLUSTER_FAULTS = [
  'server-kill',
  'server-freeze',
  'server-restart',
  'leader-kill',
  'outage',
  'partition',
  'slow',
  'disk-full',
  'flip',
] as const
/** Does no harm: fills segments, so that the archive is sealed and passes leave the stream while everything else is running. */
const STREAM_FAULTS = ['seal'] as const
export const FAULTS = [...PROCESS_FAULTS, ...CLUSTER_FAULTS, ...STREAM_FAULTS] as const
export type FaultName = (typeof FAULTS)[number]

/** Options of a run, resolved once at the start. */
export interface ChaosOptions {
  seed: number
  /** Duration of load and faults in milliseconds. */
  length_ms: number
  faults: readonly FaultName[]
  nodes: 1 | 3
  /** Passes requested per second. */
  rate: number
  /** Time in milliseconds for which an id counts as fresh. Closed passes leave the stream after twice this time. */
  id_window_ms: number
  /** Additional milliseconds by which a pass may end late because the machine is busy. */
  slack_ms: number
  /** True to record resource usage and look for growth. */
  soak: boolean
  /** Folder for stores, logs, histories and the report. */
  dir: string
  /** True to give each agent an account of its own, and credentials to every principal. */
  isolated: boolean
  /** `loopback` to use the loopback network even if namespaces are available. */
  network: 'own' | 'loopback'
}

export const CHAOS_DEFAULTS: Omit<ChaosOptions, 'seed' | 'dir'> = {
  length_ms: 120_000,
  faults: FAULTS,
  nodes: 3,
  rate: 12,
  id_window_ms: 15_000,
  slack_ms: 0,
  soak: false,
  isolated: false,
  network: 'own',
}
