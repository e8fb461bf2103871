import type { Bus } from '@passover/bus'
import { passError } from '@passover/core'
import { expect, it } from 'vitest'
import type { Deps } from '../runtime/dependencies.js'
import { ConstraintLookup } from './constraint-lookup.js'

const KEY = { originator: 'alice', subagent: 'audit', id: 'given-id-1' }

function termsWhere(ask: () => Promise<unknown>): ConstraintLookup {
  const bus = { journal: { glimpse: async () => [] }, ask } as unknown as Bus
  return new ConstraintLookup({ bus, clock: { monotonic: () => 0 } } as unknown as Deps)
}

// Found by the simulation (seed 5194): the work step had left the stream, the audit was beginning anew, and what nobody had released was handed out.
it.each([
  ['knows nothing of it yet', async () => ({ ok: false, error: passError('E041', 'no such pass') })],
  ['does not answer', () => Promise.reject(new Error('nobody answers'))],
])('does not take a pass for one without terms where the audit %s', async (_, ask) => {
  await expect(termsWhere(ask).control(KEY)).rejects.toMatchObject({ code: 'E040' })
})
