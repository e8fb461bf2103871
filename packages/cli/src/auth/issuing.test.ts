import { createInstallation } from '@passover/bus/auth'
import { describe, expect, it } from 'vitest'
import { addPrincipal, revokePrincipal, rotatePrincipal } from './issuing.js'
import type { AuthRecords } from './records.js'

describe('revokePrincipal', () => {
  it('returns the account again for a principal that is revoked already, so that a server that was away gets it', async () => {
    const records: AuthRecords = { installation: await createInstallation(), principals: [] }
    await addPrincipal(records, { role: 'agent', name: 'alice', originates: true, subagent: true })
    const first = await revokePrincipal(records, 'alice')
    const { revoked_at, revocations } = { ...first.record }
    const again = await revokePrincipal(records, 'alice')
    expect(again.record).toMatchObject({ name: 'alice', revoked_at, revocations })
    expect(again.account.id).toBe(first.account.id)
    await expect(rotatePrincipal(records, 'alice')).rejects.toMatchObject({ code: 'E041', message: expect.stringContaining('was revoked') })
    await expect(revokePrincipal(records, 'bob')).rejects.toMatchObject({ code: 'E041' })
  })
})
