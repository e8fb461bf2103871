/** Every fault there is: those of single processes, those of the servers and what is between them, and what makes the stream grow. */
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
/** No harm, but what makes segments full, so that the archive is sealed and passes leave the stream while all else goes on. */
const STREAM_FAULTS = ['seal'] as const
export const FAULTS = [...PROCESS_FAULTS, ...CLUSTER_FAULTS, ...STREAM_FAULTS] as const
export type FaultName = (typeof FAULTS)[number]

/** What a run is asked for; resolved once, at the edge. */
export interface ChaosOptions {
  seed: number
  /** How long there is load and trouble, ms. */
  length_ms: number
  faults: readonly FaultName[]
  nodes: 1 | 3
  /** Passes asked for a second. */
  rate: number
  /** How long an id counts as fresh; after two of these what is closed leaves the stream. */
  id_window_ms: number
  /** How much later than promised a pass may end because the machine has other things to do, ms. */
  slack_ms: number
  /** Watch what grows. */
  soak: boolean
  /** Where stores, logs, histories and the report go. */
  dir: string
  /** Each agent has an account of its own, and every principal has credentials. */
  isolated: boolean
  /** Use loopback even where namespaces are allowed. */
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
