import { type BusOptions, busFromEnvironment, type TopologyOptions, topologyFromEnvironment } from '@passover/bus'
import type { AuditSettings } from './options.js'

type Environment = Record<string, string | undefined>

/** Configuration that an audit process reads from its environment. */
export interface ProcessConfig {
  bus: Omit<BusOptions, 'identity'>
  settings: AuditSettings
  log_level: string
  /** Limits of the stream and the buckets (docs/operations/quotas.md). */
  topology: TopologyOptions
}

/**
 * Reads the variables of `busFromEnvironment`, and PASSOVER_ID_WINDOW_MS (the same value as for the dispatchers), PASSOVER_LOG_ALL_PASSES
 * (`false`), PASSOVER_ARCHIVE_COMPRESSION, PASSOVER_PEOPLE (comma-separated names of the people who may see every pass), PASSOVER_OPEN (`true`:
 * every name that is not a registered agent counts as a person), PASSOVER_STORAGE_BYTES, PASSOVER_REPLICAS and PASSOVER_LOG_LEVEL.
 *
 * @param readFile - reads a text file; returns `undefined` if the path is not a file
 */
export function readEnvironment(env: Environment, readFile: (path: string) => string | undefined): ProcessConfig {
  return {
    bus: busFromEnvironment(env, readFile),
    settings: settingsOf(env),
    log_level: env.PASSOVER_LOG_LEVEL ?? 'info',
    topology: topologyFromEnvironment(env),
  }
}

function settingsOf(env: Environment): AuditSettings {
  const window = env.PASSOVER_ID_WINDOW_MS
  const compression = env.PASSOVER_ARCHIVE_COMPRESSION
  const settings: Record<string, unknown> = {}
  if (window) settings.id_window_ms = Number(window)
  if (compression) settings.compression = compression
  if (env.PASSOVER_LOG_ALL_PASSES === 'false') settings.log_all_passes = false
  if (env.PASSOVER_PEOPLE) settings.people = env.PASSOVER_PEOPLE.split(',').map((name) => name.trim())
  if (env.PASSOVER_OPEN === 'true') settings.open = true
  // `auditOptions` validates the whole object and names each invalid value.
  return settings as AuditSettings
}
