import { appendFile, mkdir, mkdtemp, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ExportFiles, writeCsv } from '@passover/cli'
import type { PassOverAuditEntry } from '@passover/schemas'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'

const FEBRUARY = Date.UTC(2024, 1, 29, 23, 59, 59, 999)
const MARCH = FEBRUARY + 1

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'passover-export-'))
})
afterEach(() => rm(folder, { recursive: true }))

const entry = (pass_over_id: string, session_id: string, timestamp: number) =>
  ({ pass_over_id, session_id, timestamp, originating_agent: 'alice', subagent: 'audit', summary: 'a, "b"' }) as PassOverAuditEntry
const idsIn = async (month: string, session: string) =>
  (await readFile(join(folder, month, `session-${session}-passes.jsonl`), 'utf8'))
    .trim()
    .split('\n')
    .map((line) => (JSON.parse(line) as PassOverAuditEntry).pass_over_id)

/** The files of an export: no server is needed for them. */
describe('exported files', () => {
  it('are one a month and session, by the month in which a pass was asked for, UTC; CSV has the months likewise', async () => {
    await using files = new ExportFiles(folder)
    await files.add([entry('one', 'abc123', FEBRUARY), entry('two', 'abc123', MARCH), entry('three', 'def456', FEBRUARY)])
    await files.add([entry('four', 'abc123', MARCH)])
    await files.write('audit-summary.json', '{}\n')
    const paths = await files.finish()
    const [february, march] = await Promise.all(['2024-02', '2024-03'].map((month) => writeCsv(folder, month)))
    expect(paths.map((path) => path.slice(folder.length + 1))).toEqual([
      '2024-02/session-abc123-passes.jsonl',
      '2024-02/session-def456-passes.jsonl',
      '2024-03/session-abc123-passes.jsonl',
      'audit-summary.json',
    ])
    expect(await Promise.all([idsIn('2024-02', 'abc123'), idsIn('2024-02', 'def456'), idsIn('2024-03', 'abc123')])).toEqual([
      ['one'],
      ['three'],
      ['two', 'four'],
    ])
    const ids = async (path = '') => (await readFile(path, 'utf8')).split('\r\n').map((line) => line.split(',')[0])
    expect([await ids(february), await ids(march)]).toEqual([
      ['pass_over_id', 'one', 'three', ''],
      ['pass_over_id', 'two', 'four', ''],
    ])
  })

  it('are the old ones until all of the new is there: who dies before leaves a draft, which a later export takes away', async () => {
    const path = join(folder, '2024-02', 'session-abc123-passes.jsonl')
    await mkdir(join(folder, '2024-02'))
    const old = `${JSON.stringify(entry('old', 'abc123', FEBRUARY))}\n`
    await writeFile(path, old)
    // Not disposed: as if it had died here.
    await new ExportFiles(folder).add([entry('new', 'abc123', FEBRUARY)])
    expect(await readFile(path, 'utf8')).toBe(old)
    await writeFile(`${path}.1.tmp`, 'of one that writes now')
    await writeFile(`${path}.2.tmp`, 'of one that died')
    await utimes(`${path}.2.tmp`, 1, 1)
    {
      await using broken = new ExportFiles(folder)
      await broken.add([entry('new', 'abc123', FEBRUARY)])
    }
    expect(await readFile(path, 'utf8')).toBe(old)
    await using files = new ExportFiles(folder)
    await files.add([entry('new', 'abc123', FEBRUARY)])
    await files.finish()
    expect(await idsIn('2024-02', 'abc123')).toEqual(['new'])
    expect((await readdir(join(folder, '2024-02'))).sort()).toEqual(['session-abc123-passes.jsonl', 'session-abc123-passes.jsonl.1.tmp'])
  })

  // Fails where each file looks for drafts of its own: that reads a month as often as it has sessions.
  it('read a folder once for what exports that died left, of whatever session; what is not theirs stays', async () => {
    const month = join(folder, '2024-02')
    const left = async (...names: string[]) => {
      for (const name of names) {
        await writeFile(join(month, name), 'of one that died')
        await utimes(join(month, name), 1, 1)
      }
    }
    await mkdir(month)
    await left('session-gone-passes.jsonl.1.tmp', 'passes.csv.1.tmp', 'notes.1.tmp')
    await using files = new ExportFiles(folder)
    await files.add([entry('one', 'abc123', FEBRUARY)])
    expect((await readdir(month)).filter((name) => name.endsWith('.1.tmp'))).toEqual(['notes.1.tmp'])
    await left('session-def456-passes.jsonl.1.tmp')
    await files.add([entry('two', 'def456', FEBRUARY)])
    expect(await readdir(month)).toContain('session-def456-passes.jsonl.1.tmp')
  })

  it('keep what is older than what is exported', async () => {
    await using first = new ExportFiles(folder)
    await first.add([entry('older', 'abc123', FEBRUARY - 5), entry('again', 'abc123', FEBRUARY)])
    await first.finish()
    await using second = new ExportFiles(folder, { before: FEBRUARY, isAgain: () => false })
    await second.add([entry('again', 'abc123', FEBRUARY)])
    await second.finish()
    expect(await idsIn('2024-02', 'abc123')).toEqual(['older', 'again'])
  })

  it('put what is written again where it was, between what stays, and lose nothing of a file that is in another order', async () => {
    await using first = new ExportFiles(folder)
    const [a, b, c, d, e] = [-9, -7, -7, -3, -5].map((n, at) => entry('abcde'[at] as string, 'abc123', FEBRUARY + n)) as [
      PassOverAuditEntry,
      PassOverAuditEntry,
      PassOverAuditEntry,
      PassOverAuditEntry,
      PassOverAuditEntry,
    ]
    await first.add([a, b, c, d, e, entry('gone', 'abc123', FEBRUARY)])
    await first.add([entry('kept', 'def456', FEBRUARY - 2)])
    await first.finish()
    await using second = new ExportFiles(folder, { before: FEBRUARY, isAgain: ({ pass_over_id }) => ['b', 'e'].includes(pass_over_id) })
    await second.add([entry('before', 'abc123', FEBRUARY - 10), { ...a, applied: false }, b, { ...e, applied: true }])
    await second.add([entry('new', 'abc123', FEBRUARY), entry('newest', 'abc123', FEBRUARY)])
    await second.add([entry('between', 'def456', FEBRUARY - 3)])
    await second.finish()
    expect(await idsIn('2024-02', 'abc123')).toEqual(['before', 'a', 'c', 'b', 'e', 'd', 'new', 'newest'])
    const text = await readFile(join(folder, '2024-02', 'session-abc123-passes.jsonl'), 'utf8')
    expect(text.match(/"applied":\w+/g)).toEqual(['"applied":true'])
    expect(await idsIn('2024-02', 'def456')).toEqual(['between', 'kept'])
  })

  it('have one line an entry for every reader, and read files whose lines contain other line separators', async () => {
    const path = join(folder, '2024-02', 'session-abc123-passes.jsonl')
    await mkdir(join(folder, '2024-02'))
    const former = { ...entry('old', 'abc123', FEBRUARY - 2), summary: 'a\u2028b\u2029c\u0085d\re' }
    await writeFile(path, `${JSON.stringify(former)}\n`)
    await using files = new ExportFiles(folder, { before: FEBRUARY - 1, isAgain: () => false })
    await files.add([{ ...entry('new', 'abc123', FEBRUARY), summary: former.summary }])
    await files.finish()
    const text = await readFile(path, 'utf8')
    expect(text).not.toMatch(/[\u2028\u2029\u0085\r]/)
    expect(
      text
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line).summary),
    ).toEqual([former.summary, former.summary])
  })

  it('say which line of a file that is to stay is none', async () => {
    await using first = new ExportFiles(folder)
    await first.add([entry('older', 'abc123', FEBRUARY - 5)])
    const [path = ''] = await first.finish()
    await appendFile(path, '{"timestamp":"soon"}\n')
    await using second = new ExportFiles(folder, { before: FEBRUARY, isAgain: () => false })
    await expect(second.add([entry('again', 'abc123', FEBRUARY)])).rejects.toMatchObject({
      code: 'E005',
      message: expect.stringContaining(`${path}:2 is not a line of an export`),
    })
  })
})
