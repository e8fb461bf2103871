import type { CustodyHold } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Story } from '../../support/builders/story.js'
import { type AuditFixture, auditFixture } from '../../support/fixtures/audit.js'
import { Folder, json, run } from '../../support/fixtures/cli.js'

let fixture: AuditFixture
let folder: Folder
beforeAll(async () => {
  fixture = await auditFixture()
  await fixture.register('audit', 'alice')
  const audit = await fixture.audit()
  for (const [n, session_id] of ['disputed', 'other'].entries()) {
    await new Story(fixture.bus, `held-by-hand-000${n}`, { session_id }).whole()
  }
  await audit.settled()
  folder = new Folder()
})
afterAll(async () => {
  folder?.[Symbol.dispose]()
  await fixture?.[Symbol.asyncDispose]()
})

const at = () => ({ cwd: folder.path, env: { PASSOVER_SERVER: fixture.nats.url, PASSOVER_AS: 'maria' } })

describe('passover audit hold', () => {
  it('added, listed, removed; by session or by pass', async () => {
    expect((await run(['audit', 'hold', 'list'], at())).stdout).toBe('No legal holds.\n')
    expect(await run(['audit', 'hold', 'add', '--reason', 'x'], at())).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--session or --pass'),
    })
    const session = await json<{ hold: number }>(['audit', 'hold', 'add', '--session', 'disputed', '--reason', 'dispute 17'], at())
    const pass = await run(['audit', 'hold', 'add', '--pass', 'held-by-hand-0001', '--reason', 'look at it'], at())
    expect(pass.stdout).toMatch(/^Held pass held-by-hand-0001 \(alice → audit\) as \S+ \(unverified\): hold \d+\./)
    const { document } = await json<CustodyHold[]>(['audit', 'hold', 'list'], at())
    expect(document).toMatchObject([
      { hold: session.document.hold, scope: { session: 'disputed' }, reason: 'dispute 17' },
      { scope: { pass: { id: 'held-by-hand-0001' } } },
    ])
    expect((await run(['audit', 'hold', 'list'], at())).stdout).toMatch(/HOLD\s+OF\s+BY\s+SINCE\s+REASON\n\d+\s+session disputed/)
    expect(await run(['audit', 'hold', 'remove', '1'], at())).toMatchObject({ code: 3, stderr: expect.stringContaining('no hold 1') })
    expect(await run(['audit', 'hold', 'remove', 'one'], at())).toMatchObject({ code: 2 })
    const hold = String(document[1]?.hold)
    expect((await run(['audit', 'hold', 'remove', hold, '--reason', 'seen'], at())).stdout).toContain('Released pass held-by-hand-0001')
    // Of passes none is of that session.
    const told = await run(['audit', 'tail', '--custody', '--since', '1h', '--session', 'none', '--count', '3'], at())
    expect(told.stdout).toMatch(
      /custody {2}\S+ \(unverified\) holds session disputed: dispute 17\n.*custody {2}\S+ \(unverified\) holds pass held-by-hand-0001 \(alice → audit\): look at it\n.*custody {2}\S+ \(unverified\) releases hold \d+: seen\n$/,
    )
  })
})
