import { createInstallation } from '@passover/bus/auth'
import { describe, expect, it } from 'vitest'
import { addPrincipal, refreshAccounts, revokePrincipal, rotatePrincipal } from './issue-credentials.js'
import type { AuthRecords } from './principal-records.js'

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

describe('the limit of connections', () => {
  const limitsOf = (jwt: string) => JSON.parse(Buffer.from(jwt.split('.')[1] ?? '', 'base64url').toString()).nats.limits

  it('is 256 in every account of an agent that is signed again, and what was asked for stays', async () => {
    const records: AuthRecords = { installation: await createInstallation(), principals: [] }
    const alice = { role: 'agent', name: 'alice', originates: true, subagent: true } as const
    await addPrincipal(records, alice)
    await addPrincipal(records, { ...alice, name: 'fleet' }, { connections: 2_000 })
    const conns = async () => (await refreshAccounts(records)).map(({ jwt }) => [limitsOf(jwt).conn, limitsOf(jwt).subs])
    expect(await conns()).toEqual([
      [-1, -1],
      [256, 2_000],
      [2_000, 2_000],
    ])
    await rotatePrincipal(records, 'fleet')
    await rotatePrincipal(records, 'alice', { connections: 10 })
    expect((await conns()).map(([conn]) => conn).sort()).toEqual([-1, 10, 2_000])
    await addPrincipal(records, { role: 'person', name: 'maria' })
    await expect(rotatePrincipal(records, 'maria', { connections: 10 })).rejects.toMatchObject({ code: 'E042' })
  })
})
