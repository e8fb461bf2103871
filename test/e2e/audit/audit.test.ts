import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { PASSES_BUCKET, storedRecord } from '@passover/audit'
import { passOverAuditEntry, type QueriedPass, type StatsAnswer } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Story, type StoryOptions } from '../../support/builders/story.js'
import { type AuditFixture, auditFixture } from '../../support/fixtures/audit.js'
import { cli, Folder, json, run, until } from '../../support/fixtures/cli.js'

const SESSIONS = ['abc123', '..', '../../escape', 'ABC', 'abc', 'x'.repeat(200), '=formula', '']

let fixture: AuditFixture
let folder: Folder
let count = 0
beforeAll(async () => {
  fixture = await auditFixture()
  await fixture.register('audit', 'alice', 'scout')
  const audit = await fixture.audit()
  for (const session_id of SESSIONS) await story({ session_id, reason: `=cmd("${session_id.slice(0, 4)}")` }).whole()
  const failed = story({ session_id: 'abc123', subagent: 'scout' })
  await failed.request()
  await failed.work()
  await failed.ends({ code: 'E011', message: 'no heartbeat' })
  await audit.settled()
  folder = new Folder()
})
afterAll(async () => {
  folder?.[Symbol.dispose]()
  await fixture?.[Symbol.asyncDispose]()
})

const story = (options: StoryOptions = {}) => new Story(fixture.bus, `audit-id-${String(++count).padStart(4, '0')}`, options)
const at = () => ({ cwd: folder.path, env: { PASSOVER_SERVER: fixture.nats.url } })
const ids = (found: QueriedPass[]) => found.map(({ row }) => row.id)

describe('passover audit', () => {
  it('query: filters, pages by cursor, all as lines; what is wrong is said', async () => {
    const all = (await json<QueriedPass[]>(['audit', 'query'], at())).document
    expect(all.length).toBe(9)
    expect(ids((await json<QueriedPass[]>(['audit', 'query', '--status', 'failed'], at())).document)).toEqual(['audit-id-0009'])
    expect(ids((await json<QueriedPass[]>(['audit', 'query', '--to', 'scout', '--code', 'e011'], at())).document)).toEqual([
      'audit-id-0009',
    ])
    expect((await json<QueriedPass[]>(['audit', 'query', '--denied'], at())).document).toEqual([])
    expect(ids((await json<QueriedPass[]>(['audit', 'query', '--text', 'CMD("abc1'], at())).document)).toEqual(['audit-id-0001'])
    const first = await run(['audit', 'query', '--limit', '4'], at())
    const cursor = /--cursor (\S+),/.exec(first.stderr)?.[1] ?? ''
    const rest = (await json<QueriedPass[]>(['audit', 'query', '--cursor', cursor], at())).document
    expect(ids(rest)).toEqual(ids(all).slice(4))
    const lines = (await run(['audit', 'query', '--all', '--jsonl'], at())).stdout.trim().split('\n')
    expect(lines.map((line) => (JSON.parse(line) as QueriedPass).row.id)).toEqual(ids(all))
    expect(await run(['audit', 'query', '--since', 'soon'], at())).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('a duration before now'),
    })
    expect(await run(['audit', 'query', '--cursor', 'odd'], at())).toMatchObject({ code: 2, stderr: expect.stringContaining('cursor') })
    expect(await run(['audit', 'qeury'], at())).toMatchObject({ code: 2, stderr: expect.stringContaining('Did you mean query?') })
  })

  it('stats: counts and times', async () => {
    const stats = (await json<Extract<StatsAnswer, { ok: true }>>(['audit', 'stats'], at())).document
    expect(stats).toMatchObject({ passes: 9, by: { pair: { groups: [{ name: 'alice->audit', count: 8 }, { count: 1 }] } } })
    const { stdout } = await run(['audit', 'stats'], at())
    expect(stdout).toMatch(/BY\s+NAME\s+PASSES\s+P50\s+P99/)
    expect(stdout).toContain('alice->scout')
  })

  it('tail: each pass as it ends', async () => {
    const tail = run(['audit', 'tail', '--since', '1h', '--count', '10', '--jsonl'], at())
    await story({ session_id: 'tailed' }).whole()
    const { stdout, code } = await tail
    const told = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as QueriedPass)
    expect(code).toBe(0)
    expect(told.at(-1)?.entry).toMatchObject({ session_id: 'tailed', status: 'completed' })
    const some = await json<QueriedPass[]>(['audit', 'tail', '--since', '1h', '--count', '1', '--to', 'scout'], at())
    expect(ids(some.document)).toEqual(['audit-id-0009'])
  })

  it('export: one file a month and session, whole, the same when run again; a summary; CSV without formulas', async () => {
    const out = join(folder.path, 'logs')
    const month = new Date().toISOString().slice(0, 7)
    const session = join(out, month, 'session-abc123-passes.jsonl')
    await mkdir(join(out, month), { recursive: true })
    await writeFile(session, 'what stood there before\n')
    await writeFile(`${session}.1.tmp`, 'of a crash')
    const done = (await json<{ passes: number; files: string[] }>(['audit', 'export', '--out', 'logs', '--csv'], at())).document
    expect(done.passes).toBe(10)
    const files = (await readdir(join(out, month))).filter((name) => name.endsWith('.jsonl'))
    expect(files.length).toBe(SESSIONS.length + 1)
    expect((await readdir(folder.path)).sort()).toEqual(['logs'])
    const entries = (await readFile(session, 'utf8'))
      .trim()
      .split('\n')
      .map((line) => passOverAuditEntry.parse(JSON.parse(line)))
    expect(entries.map(({ pass_over_id, status }) => [pass_over_id, status])).toEqual([
      ['audit-id-0001', 'completed'],
      ['audit-id-0009', 'failed'],
    ])
    const summary = JSON.parse(await readFile(join(out, 'audit-summary.json'), 'utf8')) as { passes: number; by: { code: unknown[] } }
    expect(summary).toMatchObject({ passes: 10, by: { code: [{ name: 'E011', count: 1 }], month: [{ name: month, count: 10 }] } })
    const csv = await readFile(join(out, month, 'passes.csv'), 'utf8')
    expect(csv.split('\r\n').length).toBe(12)
    expect(csv).toContain(`'=cmd(""abc1"")`)
    const before = await Promise.all(done.files.map((file) => readFile(file, 'utf8')))
    await run(['audit', 'export', '--out', 'logs', '--csv'], at())
    expect(await Promise.all(done.files.map((file) => readFile(file, 'utf8')))).toEqual(before)
  })

  it('export: --since leaves older lines, --session touches no other file', async () => {
    const out = join(folder.path, 'part')
    const month = new Date().toISOString().slice(0, 7)
    await run(['audit', 'export', '--out', 'part', '--session', 'abc123'], at())
    expect(await readdir(join(out, month))).toEqual(['session-abc123-passes.jsonl'])
    expect(existsSync(join(out, 'audit-summary.json'))).toBe(false)
    const file = join(out, month, 'session-abc123-passes.jsonl')
    const whole = await readFile(file, 'utf8')
    const [first = ''] = whole.split('\n')
    const old = { ...(JSON.parse(first) as object), pass_over_id: 'older-than-that', timestamp: Date.now() - 5_400_000 }
    await writeFile(file, `${JSON.stringify(old)}\n`)
    await run(['audit', 'export', '--out', 'part', '--since', '1h'], at())
    expect(await readFile(file, 'utf8')).toBe(`${JSON.stringify(old)}\n${whole}`)
    await writeFile(file, `${JSON.stringify(old)}\nnot a line of ours\n`)
    expect(await run(['audit', 'export', '--out', 'part', '--since', '1h'], at())).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/session-abc123-passes\.jsonl:2 is not a line of an export.*another folder with --out/s),
    })
    expect(await readFile(file, 'utf8')).toContain('not a line of ours')
    await rm(out, { recursive: true })
  })

  it('rebuild: says what it did', async () => {
    const done = (await json<{ passes: number; rewritten: number }>(['audit', 'rebuild'], at())).document
    expect(done).toMatchObject({ source: 'archive', passes: 10, rewritten: 0, removed: 0, kept: 0, index: { records: 10, mended: 0 } })

    // Erased past the audit, it leaves no revision that the audit could see.
    const records = await fixture.bus.table(PASSES_BUCKET, storedRecord)
    const [[key, record] = []] = await fixture.records()
    if (!key || !record) throw new Error('no record')
    await records.erase(key)
    const what = `the audit's index has an entry for the pass that begins at sequence ${record.sequences.requests[0]}, which has no record`
    const verified = await json<{ index: unknown; shown: unknown[] }>(['verify'], at())
    expect([verified.code, verified.document.index]).toEqual([1, { records: 9, wrong: 1 }])
    expect((await run(['verify', '--since', '32'], at())).stdout).toContain(`${what}; \`passover audit rebuild\` fixes it [index]`)
    const mended = (await run(['audit', 'rebuild'], at())).stdout
    expect(mended).toContain('9 correct, 1 rewritten')
    expect(mended).toContain('Index for filters and statistics: 10 records compared')
    expect((await json(['verify'], at())).document).toMatchObject({ index: { records: 10, wrong: 0 } })

    await fixture.deleteRecords()
    expect((await run(['audit', 'rebuild', '--source', 'stream'], at())).stdout).toMatch(/^10 passes: /)
    expect((await fixture.records()).size).toBe(10)
  })

  // Behind those that count passes.
  it('tail: goes on where it was when the server is back after kill -9, and tells each pass once', async () => {
    await using tail = cli(['audit', 'tail', '--since', '1h', '--session', 'cut', '--count', '2', '--jsonl'], at())
    const before = await story({ session_id: 'cut' }).whole()
    await tail.printed(before.key.id)
    const [server] = fixture.nats.nodes
    await server?.kill()
    await server?.restart()
    await until('the connection is back', () => fixture.bus.connected)
    const after = await story({ session_id: 'cut' }).whole()
    const { code, stdout } = await tail.ended
    const told = stdout.trim().split('\n')
    expect({ code, ids: ids(told.map((line) => JSON.parse(line) as QueriedPass)) }).toEqual({ code: 0, ids: [before.key.id, after.key.id] })
  })

  it('export: nothing where the policy says that passes are not logged, and later nothing of what was not to be', async () => {
    const says = async (log_all_passes: boolean) => {
      await writeFile(join(folder.path, 'audit.json'), JSON.stringify({ audit: { log_all_passes } }))
      expect(await run(['policy', 'push', 'audit.json', '--reason', 'x'], at())).toMatchObject({ code: 0 })
    }
    const loud = await story({ session_id: 'quiet' }).whole()
    await says(false)
    expect(await run(['audit', 'export', '--out', 'quiet'], at())).toMatchObject({
      code: 4,
      stderr: expect.stringContaining('log_all_passes: false'),
    })
    expect(existsSync(join(folder.path, 'quiet'))).toBe(false)
    await story({ session_id: 'quiet' }).whole()
    // What is said of a pass later does not take it out.
    await loud.applied('maria')
    await says(true)
    const done = await json<{ files: string[] }>(['audit', 'export', '--out', 'quiet', '--session', 'quiet'], at())
    expect(done.document).toMatchObject({ passes: 1, unlogged: 1, summary: { by: { session: [{ name: 'quiet', count: 1 }] } } })
    expect(JSON.parse(await readFile(done.document.files[0] ?? '', 'utf8'))).toMatchObject({ pass_over_id: loud.key.id, applied: true })
    const env = { ...at().env, PASSOVER_LOG_ALL_PASSES: 'false' }
    expect((await run(['audit', 'export', '--out', 'none'], { ...at(), env })).stdout).toMatch(
      /^0 passes[\s\S]*passes left out, because log_all_passes/,
    )
  })
})
