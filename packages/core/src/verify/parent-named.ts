import type { PassKey } from '@passover/schemas'
import type { AskedTold, PassTold } from './recorded.js'

/** A pass that another names as its parent, and the step of it that is named as proof. */
export interface ParentNamed {
  key: PassKey
  proof: number | undefined
}

/** By its control frame; by its request where it has none. */
export function parentNamedBy({ control }: PassTold, asked: AskedTold): ParentNamed | undefined {
  if (control?.parent) return { key: control.parent, proof: control.proof }
  const reading = asked.recorded.reading()
  const parent = reading.ok ? reading.value.request.parent : undefined
  return parent && { key: parent, proof: parent.proof }
}

export function known(parent: PassTold | 'unseen' | undefined): PassTold | undefined {
  return parent === 'unseen' ? undefined : parent
}
