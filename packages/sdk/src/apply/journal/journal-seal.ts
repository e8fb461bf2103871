import { PassOverError } from '@passover/core'
import { isSealed as isSealedHere, NoSealingKey, sealOf as sealHere } from '../../project/seal.js'

/** Seals an intent. Throws E030 if no key of this user is available: then nothing is applied. */
export function sealOf(directory: string, text: string): string {
  try {
    return sealHere(directory, text)
  } catch (error) {
    if (!(error instanceof NoSealingKey)) throw error
    throw new PassOverError('E030', `${error.message}: without it nothing is applied`, { path: error.path })
  }
}

export const isSealed = isSealedHere
