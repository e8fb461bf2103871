import { type BusOptions, busFromEnvironment, SettingError } from '@passover/bus'
import type { NotifierSettings } from './options.js'

type Environment = Record<string, string | undefined>

export interface ProcessConfig {
  bus: Omit<BusOptions, 'identity'>
  settings: NotifierSettings
  log_level: string
}

/**
 * Reads the variables of `busFromEnvironment`, and PASSOVER_WEBHOOK_URL, PASSOVER_WEBHOOK_SECRET (at least 16 characters) and PASSOVER_LOG_LEVEL. The
 * id window is that of the stream.
 *
 * @throws SettingError if the webhook is not set
 */
export function readEnvironment(env: Environment, readFile: (path: string) => string | undefined): ProcessConfig {
  const settings = webhookFrom(env)
  if (!settings) throw new SettingError('PASSOVER_WEBHOOK_URL is not set, so no webhook can be notified', 'set it to an http(s) address')
  return { bus: busFromEnvironment(env, readFile), settings, log_level: env.PASSOVER_LOG_LEVEL ?? 'info' }
}

/** Returns the webhook, or `undefined` if none is set. Throws if it has no secret: a receiver could not verify who sent a notice. */
export function webhookFrom(env: Environment): NotifierSettings | undefined {
  const { PASSOVER_WEBHOOK_URL: url, PASSOVER_WEBHOOK_SECRET: secret } = env
  if (!url) return undefined
  if (!secret)
    throw new SettingError(
      'PASSOVER_WEBHOOK_URL is set but PASSOVER_WEBHOOK_SECRET is not: notifications must be signed',
      'set it to at least 16 characters',
    )
  return { url, secret }
}
