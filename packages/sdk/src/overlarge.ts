import { passError } from '@passover/core'
import type { PassError } from '@passover/schemas'

/** E014 of an output that cannot be sent. Doing the work again would give the same one, so nobody is to try (decision 122). */
export function overlarge(message: string, mend: string): PassError {
  return passError('E014', message, { recoverable: false, mend })
}
