import type { PolicyStand } from '@passover/bus'
import { expect, it } from 'vitest'
import { Logging } from './logging.js'

const valid = (audit?: { log_all_passes?: boolean }) =>
  ({ kind: 'valid', value: { document: audit ? { audit } : {} }, revision: 1 }) as unknown as PolicyStand

/** What each look in turn makes of it. */
async function looked(told: boolean, stands: (PolicyStand | undefined)[]): Promise<boolean[]> {
  let stand: PolicyStand | undefined
  const stood = async () => {
    if (!stand) throw new Error('not read')
    return stand
  }
  const logging = new Logging({ stand: stood }, told)
  const found = [logging.on]
  for (stand of stands) {
    await logging.look()
    found.push(logging.on)
  }
  return found
}

it('is as the newest valid policy says, and what is not valid, gone or not read changes nothing', async () => {
  const off = valid({ log_all_passes: false })
  const invalid: PolicyStand = { kind: 'invalid', why: 'x', revision: 2 }
  const stands = [off, invalid, { kind: 'none', revision: 0 } as const, undefined, valid({}), off, valid()]
  expect(await looked(true, stands)).toEqual([true, false, false, false, false, true, false, true])
})

it('is off whatever the policy says where the process was told so', async () => {
  expect(await looked(false, [valid({ log_all_passes: true })])).toEqual([false, false])
})
