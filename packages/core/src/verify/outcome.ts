import type { Admission } from '../admit-input.js'

/** What was decided about a request, in words. */
export function outcomeText(admission: Admission): string {
  switch (admission.kind) {
    case 'admit':
      return `admitted (${admission.slot})`
    case 'hold':
      return 'held for a person'
    case 'later':
      return 'not to be told'
    case 'refuse':
      return `${admission.error.code}: ${admission.error.message}`
  }
}
