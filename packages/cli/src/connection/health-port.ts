import { healthPort } from '@passover/bus'
import { usage } from '../errors.js'

/** Returns PASSOVER_HEALTH_PORT, or `undefined` if it is not set. Throws CliFailure E042 if it is not a port. */
export function healthPortFrom(env: Record<string, string | undefined>): number | undefined {
  try {
    return healthPort(env)
  } catch (error) {
    throw usage(error instanceof Error ? error.message : String(error), 'a number from 0 (any free port) to 65535')
  }
}
