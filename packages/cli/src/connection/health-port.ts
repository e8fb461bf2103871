import { healthPort } from '@passover/bus'
import { usage } from '../errors.js'

/** PASSOVER_HEALTH_PORT; undefined: not asked for. E042 for what is no port. */
export function healthPortFrom(env: Record<string, string | undefined>): number | undefined {
  try {
    return healthPort(env)
  } catch (error) {
    throw usage(error instanceof Error ? error.message : String(error), 'a number from 0 (any free port) to 65535')
  }
}
