import { type BusOptions, busFromEnvironment, SettingError, type TopologyOptions, topologyFromEnvironment } from '@passover/bus'
import type { DispatcherSettings } from './runtime/options.js'

type Environment = Record<string, string | undefined>

/** Configuration that a dispatcher process reads from its environment. */
export interface ProcessConfig {
  bus: Omit<BusOptions, 'identity'>
  settings: DispatcherSettings
  log_level: string
  /** Settings of the stream and the buckets (docs/operations/quotas.md). */
  topology: TopologyOptions
}

/**
 * Reads the variables of busFromEnvironment and PASSOVER_REGISTRATION, PASSOVER_ID_WINDOW_MS (used only when the stream is created; an existing
 * stream keeps its own), PASSOVER_POLICY (a path), PASSOVER_PARTS_BYTES, PASSOVER_STORAGE_BYTES, PASSOVER_REPLICAS, PASSOVER_LOG_LEVEL.
 * `readFile` returns `undefined` if the path is not a readable file.
 */
export function readEnvironment(env: Environment, readFile: (path: string) => string | undefined): ProcessConfig {
  return {
    bus: busFromEnvironment(env, readFile),
    settings: settingsOf(env, readFile),
    log_level: env.PASSOVER_LOG_LEVEL ?? 'info',
    topology: topologyFromEnvironment(env),
  }
}

function settingsOf(env: Environment, readFile: (path: string) => string | undefined): DispatcherSettings {
  const registration = env.PASSOVER_REGISTRATION
  const window = env.PASSOVER_ID_WINDOW_MS
  const policy = env.PASSOVER_POLICY
  const parts = env.PASSOVER_PARTS_BYTES
  const settings: Record<string, unknown> = {}
  if (registration) settings.registration = registration
  if (window) settings.id_window_ms = Number(window)
  if (parts) settings.parts_bytes = Number(parts)
  if (policy) settings.policy = { version: 0, document: policyIn(policy, readFile) }
  // dispatcherOptions validates the settings as a whole and names the invalid ones.
  return settings as DispatcherSettings
}

function policyIn(path: string, readFile: (path: string) => string | undefined): unknown {
  const text = readFile(path)
  if (text === undefined) throw new SettingError(`PASSOVER_POLICY: ${path} cannot be read`, 'set it to the path of a policy file')
  try {
    return JSON.parse(text)
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new SettingError(`PASSOVER_POLICY: ${path} is not JSON: ${why}`, 'passover policy check <path> shows the line')
  }
}
