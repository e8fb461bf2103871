import { POLICY_FIELDS } from '@passover/core'
import { expect, it } from 'vitest'
import { ADMISSION, GLOBAL } from '../support/fields/admission.js'
import { RETURNING } from '../support/fields/returning.js'
import { WORK } from '../support/fields/work.js'

/** Fields whose effect is not here yet, and why: a field that is in no row is a failure. */
const NOT_YET: Record<string, string> = {
  return_deadline_ms: 'bounds delivery to agents that were away (durable_returns), which no agent can ask for yet',
}

it('every field of the policy has a row that shows its effect', () => {
  const rows = new Set<string>([...ADMISSION, ...GLOBAL, ...WORK, ...RETURNING].map(({ field }) => field))
  expect([...rows, ...Object.keys(NOT_YET)].sort()).toEqual(Object.keys(POLICY_FIELDS).sort())
})
