import { POLICY_FIELDS } from '@passover/core'
import { expect, it } from 'vitest'
import { ADMISSION, GLOBAL } from '../../support/fields/admission.js'
import { DELIVERY } from '../../support/fields/delivery.js'
import { LIMITS } from '../../support/fields/limits.js'
import { RETURNING } from '../../support/fields/returning.js'
import { WORK } from '../../support/fields/work.js'

it('every field of the policy has a row that shows its effect', () => {
  const rows = new Set<string>([...ADMISSION, ...LIMITS, ...GLOBAL, ...WORK, ...RETURNING, ...DELIVERY].map(({ field }) => field))
  expect([...rows].sort()).toEqual(Object.keys(POLICY_FIELDS).sort())
})
