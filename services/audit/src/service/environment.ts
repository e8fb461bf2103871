import { type BusOptions, busFromEnvironment, type TopologyOptions, topologyFromEnvironment } from '@passover/bus'
import type { AuditSettings } from './options.js'

type Environment = Record<string, string | undefined>

/** Everything that an audit process is told by its environment. */
export interface ProcessConfig {
  bus: Omit<BusOptions, 'identity'>
  settings: AuditSettings
  log_level: string
  /** Of stream and buckets (docs/operations/quotas.md). */
  topology: TopologyOptions
}

/**
 * What busFromEnvironment reads, and PASSOVER_ID_WINDOW_MS (as of the dispatchers), PASSOVER_LOG_ALL_PASSES (`false`),
 * PASSOVER_ARCHIVE_COMPRESSION, PASSOVER_PEOPLE (names, by commas, of those who are told about every pass), PASSOVER_OPEN (`true`:
 * whoever is no registered agent is), PASSOVER_STORAGE_BYTES, PASSOVER_REPLICAS, PASSOVER_LOG_LEVEL. `readFile` gives undefined for what is no file.
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
  // Checked as a whole by auditOptions, which names what is wrong.
  return settings as AuditSettings
}
