import { type BusOptions, busFromEnvironment, SettingError } from '@passover/bus'
import type { NotifierSettings } from './options.js'

type Environment = Record<string, string | undefined>

export interface ProcessConfig {
  bus: Omit<BusOptions, 'identity'>
  settings: NotifierSettings
  log_level: string
}

/**
 * What busFromEnvironment reads, PASSOVER_WEBHOOK_URL, PASSOVER_WEBHOOK_SECRET (at least 16 characters) and
 * PASSOVER_LOG_LEVEL. The id window is the stream's. Throws where the webhook is not set.
 */
export function readEnvironment(env: Environment, readFile: (path: string) => string | undefined): ProcessConfig {
  const settings = webhookFrom(env)
  if (!settings) throw new SettingError('PASSOVER_WEBHOOK_URL is not set: there is nobody to notify', 'set it to an http(s) address')
  return { bus: busFromEnvironment(env, readFile), settings, log_level: env.PASSOVER_LOG_LEVEL ?? 'info' }
}

/** Undefined: no webhook is wanted. Throws where it has no secret: a receiver could not tell who sent it. */
export function webhookFrom(env: Environment): NotifierSettings | undefined {
  const { PASSOVER_WEBHOOK_URL: url, PASSOVER_WEBHOOK_SECRET: secret } = env
  if (!url) return undefined
  if (!secret)
    throw new SettingError(
      'PASSOVER_WEBHOOK_URL is set and PASSOVER_WEBHOOK_SECRET is not: notices must be signed',
      'set it to at least 16 characters',
    )
  return { url, secret }
}
