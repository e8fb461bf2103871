import type { CustodyErasure } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Story } from '../../support/builders/story.js'
import { type AuditFixture, auditFixture } from '../../support/fixtures/audit.js'
import { Folder, json, run, until } from '../../support/fixtures/cli.js'

let fixture: AuditFixture
let folder: Folder
beforeAll(async () => {
  fixture = await auditFixture()
  await fixture.register('audit', 'alice')
  const audit = await fixture.audit({ id_window_ms: 1_000 })
  for (const [n, session_id] of ['other', 'gone', 'gone'].entries()) {
    await new Story(fixture.bus, `custody-id-000${n}`, { session_id }).whole()
  }
  for (const originator of ['alice', 'bob'])
    await new Story(fixture.bus, `custody-id-${originator}`, { originator, session_id: 'shared' }).whole()
  const open = new Story(fixture.bus, 'custody-id-0009', { session_id: 'busy' })
  await open.request()
  await open.work()
  await audit.settled()
  folder = new Folder()
})
afterAll(async () => {
  folder?.[Symbol.dispose]()
  await fixture?.[Symbol.asyncDispose]()
})

const at = () => ({ cwd: folder.path, env: { PASSOVER_SERVER: fixture.nats.url, PASSOVER_AS: 'maria' } })

describe('passover audit erase', () => {
  it('what is held is not erased', async () => {
    const { document } = await json<{ hold: number }>(['audit', 'hold', 'add', '--pass', 'custody-id-0001', '--reason', 'look at it'], at())
    const refused = await run(['audit', 'erase', '--session', 'gone', '--reason', 'asked for', '--yes'], at())
    expect(refused).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(`session gone is under legal hold (hold ${document.hold}) and cannot be erased`),
    })
    await json(['audit', 'hold', 'remove', String(document.hold), '--reason', 'seen'], at())
  })

  it('says what it would do, asks, refuses what is open, and says what was done', async () => {
    expect((await run(['audit', 'erase'], at())).stdout).toBe('No erasures.\n')
    expect(await run(['audit', 'erase', '--session', 'gone'], at())).toMatchObject({ code: 2, stderr: expect.stringContaining('--reason') })
    const asked = await run(['audit', 'erase', '--session', 'gone', '--reason', 'asked for'], at())
    expect(asked).toMatchObject({ code: 2, stderr: expect.stringContaining('this command would erase 2 passes (6 messages)') })
    expect(await run(['audit', 'erase', '--session', 'busy', '--reason', 'r', '--yes'], at())).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('session busy has 1 pass still open: custody-id-0009 (it has not ended yet)'),
    })
    const shared = ['audit', 'erase', '--session', 'shared', '--reason', 'r']
    expect(await run([...shared, '--yes'], at())).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/alice, bob each have a session named shared[\s\S]*--originator <agent>/),
    })
    expect(await run([...shared, '--originator', 'bob'], at())).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('this command would erase 1 pass (3 messages)'),
    })
    expect(await run(['audit', 'erase', '--session', 'none', '--reason', 'r', '--yes'], at())).toMatchObject({ code: 3 })
    const done = await run(['audit', 'erase', '--session', 'gone', '--reason', 'asked for', '--yes'], at())
    // On a busy machine it may be done after the command has stopped waiting for it.
    expect(done).toMatchObject({ code: 0, stdout: expect.stringMatching(/^(Erased 2 passes \(6 messages\); tombstone of|Erasure) .*\d+/) })
    if (done.stdout.startsWith('Erased')) expect(done.stdout).toContain('Not erased: exports')
    const erasures = async () => (await json<CustodyErasure[]>(['audit', 'erase'], at())).document
    await until('it is done', async () => (await erasures()).every(({ state }) => state !== 'pending'))
    expect(await erasures()).toMatchObject([
      { session: 'gone', originator: 'alice', state: 'done', passes: 2, entries: 6, reason: 'asked for' },
    ])
    expect((await run(['audit', 'erase'], at())).stdout).toMatch(/ERASURE\s+SESSION\s+STATE/)
    expect(await run(['show', 'custody-id-0001'], at())).toMatchObject({ code: 3, stderr: expect.stringContaining('was erased on') })
    expect(await run(['retry', 'custody-id-0001'], at())).toMatchObject({ code: 3, stderr: expect.stringContaining('was erased on') })
    const verified = await run(['verify', '--id-window', '1s'], at())
    expect(verified.stdout).toContain('erased entries (their digests are kept)')
    expect(verified.stdout).not.toContain('[erasure]')
  })
})
