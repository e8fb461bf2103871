import { keyText, type PassKey } from '@passover/schemas'
import type { Erasures } from './erasures.js'
import type { PassRegistry } from './pass-registry.js'
import type { PassState, RequestState } from './recorded-message.js'

/** A pass that another names as its parent, and the step that it names as proof. */
export interface ParentNamed {
  key: PassKey
  proof: number | undefined
}

/** Returns the parent named in the control frame, or in the request if there is no control frame. */
export function parentNamedBy({ control }: PassState, asked: RequestState): ParentNamed | undefined {
  if (control?.parent) return { key: control.parent, proof: control.proof }
  const reading = asked.recorded.reading()
  const parent = reading.ok ? reading.value.request.parent : undefined
  return parent && { key: parent, proof: parent.proof }
}

/** Returns the parent. `unseen` if the pass or its proof was erased, precedes the verified range, or ended long ago. */
export function parentOf({ key, proof }: ParentNamed, passes: PassRegistry, erasures: Erasures): PassState | 'unseen' | undefined {
  const found = passes.find(key)
  if (found?.partial || (proof !== undefined && erasures.unseen(proof))) return 'unseen'
  return found ?? (passes.hasEnded(key) || passes.isErased(keyText(key)) ? 'unseen' : undefined)
}

export function known(parent: PassState | 'unseen' | undefined): PassState | undefined {
  return parent === 'unseen' ? undefined : parent
}
