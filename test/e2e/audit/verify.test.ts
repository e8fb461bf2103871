import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { saveSegments } from '../../support/builders/recorded-archive.js'
import { openRecording } from '../../support/builders/recording.js'
import { sealAll } from '../../support/builders/seal-all.js'
import { atTerminal, cli, ECHO, hasTerminal, json, openProject, type Project, run, until } from '../../support/fixtures/cli.js'

interface Verdict {
  ok: boolean
  faults: number
  first?: { sequence?: number; what: string }
  counts: { passes: number; messages: number }
  head: { sequence: number; hash: string }
}

/** Loaded before the command: whatever opens a connection ends it. */
const NO_NETWORK = `data:text/javascript,${encodeURIComponent(
  "import net from 'node:net'; import dgram from 'node:dgram'; const no = () => { throw new Error('no network here') }; net.Socket.prototype.connect = no; dgram.Socket.prototype.send = no",
)}`

let project: Project
let cwd: string
let id: string

/** A pass that was held, approved and done, one that was refused, and one that was done at once. */
beforeAll(async () => {
  project = await openProject()
  cwd = project.cwd
  await using worker = cli(['work', 'audit', '--', 'node', '-e', ECHO], { cwd })
  await worker.printed('Working as audit', 'stderr')
  const { document } = await json<{ work_id: string }>(['request', '--to', 'audit', '--objective', 'look at it'], { cwd })
  id = document.work_id
  await run(['request', '--to', 'nobody-there', '--objective', 'look at it'], { cwd })
  worker.kill('SIGTERM')
  await worker.ended
})
afterAll(() => project?.[Symbol.asyncDispose]())

const verify = (...more: string[]) => json<Verdict>(['verify', ...more], { cwd })

describe('passover verify', () => {
  it('finds that everything holds together, and saves what it read; the folder verifies by itself to the same chain value', async () => {
    const live = await verify('--save', 'archive')
    expect(live.document).toMatchObject({ ok: true, faults: 0 })
    expect(live.code).toBe(0)
    expect(live.document.counts.passes).toBeGreaterThanOrEqual(2)
    const saved = await verify('--archive', 'archive', '--expect', live.document.head.hash)
    expect(saved.document).toMatchObject({ ok: true, head: live.document.head, counts: { messages: live.document.counts.messages } })
    expect(await verify('--archive', 'archive', '--expect', 'f'.repeat(64))).toMatchObject({ code: 1, document: { ok: false } })
    // More is stored by now, in the same segment: the value is met all the same.
    await run(['request', '--to', 'nobody-there', '--objective', 'once more'], { cwd })
    expect(await verify('--expect', live.document.head.hash)).toMatchObject({ code: 0, document: { ok: true } })
    expect((await verify('--pass', id)).document.ok).toBe(true)
  })

  it('judges a saved archive by the id window of the installation that it was saved from', async () => {
    expect(JSON.parse(readFileSync(join(cwd, 'archive', 'archive.json'), 'utf8'))).toMatchObject({ v: 1, id_window_ms: 3_600_000 })
    const wide = join(cwd, 'wide')
    const stream = openRecording()
    stream.id_window_ms = 24 * 3_600_000
    const asked = stream.ask({ key: { originator: 'alice', subagent: 'audit', id: 'asked-long-before' } })
    stream.wait(2 * 3_600_000)
    stream.return(stream.begin(asked))
    await saveSegments(wide, await sealAll(stream.events), stream)
    expect(await verify('--archive', 'wide')).toMatchObject({ code: 0, document: { ok: true, faults: 0 } })
    expect((await verify('--archive', 'wide', '--id-window', '1h')).code).toBe(1)
    const ignored = async (...more: string[]) =>
      (await json<{ ignored?: string }[]>(['replay', 'asked-long', '--archive', 'wide', ...more], { cwd })).document.filter(
        (entry) => entry.ignored !== undefined,
      ).length
    expect([await ignored(), await ignored('--id-window', '1h')]).toEqual([0, 2])
    const decided = async (...more: string[]) =>
      (await json<{ decided: number }>(['replay', '--what-if', 'none.json', '--archive', 'wide', ...more], { cwd })).document.decided
    writeFileSync(join(cwd, 'none.json'), '{}')
    expect([await decided(), await decided('--id-window', '1h')]).toEqual([1, 0])
    writeFileSync(join(wide, 'archive.json'), '{"v":1,"id_window_ms":0}')
    expect((await verify('--archive', 'wide')).code).toBe(3)
    rmSync(join(wide, 'archive.json'))
    expect((await verify('--archive', 'wide')).code).toBe(1)
  })

  it('names the entry of a saved archive that was touched, and exits 1', async () => {
    await verify('--save', 'touched')
    const index = join(cwd, 'touched', '0000000000.frames')
    const bytes = readFileSync(index)
    writeFileSync(index, bytes.subarray(0, bytes.length - 20))
    const { code, document } = await verify('--archive', 'touched')
    expect(code).toBe(1)
    expect(document.first).toMatchObject({ segment: 0, sequence: expect.any(Number), what: expect.stringContaining('cannot be read') })
    const told = await run(['verify', '--archive', 'touched'], { cwd })
    expect(told.stdout).toMatch(/^✗ segment 0, sequence \d+/)
  })

  it('says where there is no archive', async () => {
    expect((await run(['verify', '--archive', 'nowhere'], { cwd })).code).toBe(3)
    expect((await run(['verify', '--expect', 'abc'], { cwd })).code).toBe(2)
  })

  it('does not say that all is well where it looked at nothing', async () => {
    mkdirSync(join(cwd, 'empty'))
    writeFileSync(join(cwd, 'empty', 'manifest.jsonl'), '')
    expect(await run(['verify', '--archive', 'empty'], { cwd })).toMatchObject({
      code: 3,
      stderr: expect.stringContaining('nothing was verified'),
    })
    expect((await run(['verify', '--since', '999999'], { cwd })).code).toBe(3)
    expect((await run(['verify', '--pass', id, '--expect', 'f'.repeat(64)], { cwd })).code).toBe(2)
    expect((await verify('--since', '5')).document).toMatchObject({ ok: true })
  })
})

describe('passover evidence', () => {
  it('writes one signed file that verifies without a server, and by its key alone', async () => {
    const made = await json<{ fingerprint: string; ok: boolean; entries: number }>(['evidence', id, '--out', 'pass.json'], { cwd })
    expect(made.document.ok).toBe(true)
    expect(statSync(join(cwd, '.passover', 'evidence.key')).mode & 0o777).toBe(0o600)
    const away = ['--server', 'nats://127.0.0.1:1']
    const checked = await json<Verdict>(['evidence', 'verify', 'pass.json', '--key', made.document.fingerprint, ...away], { cwd })
    expect(checked).toMatchObject({ code: 0, document: { ok: true, fingerprint: made.document.fingerprint } })
    const other = await json<{ what: string }>(['evidence', 'verify', 'pass.json', '--key', 'SHA256:other'], { cwd })
    expect(other).toMatchObject({ code: 1, document: { what: expect.stringContaining('another key') } })
  })

  it('verifies elsewhere: in a process that has the file and a public key, no project, no home and no network', async () => {
    const made = await json<{ fingerprint: string }>(['evidence', id, '--out', 'taken.json'], { cwd })
    const key = await json<{ fingerprint: string; public_key: string; file: string }>(['evidence', 'key'], { cwd })
    expect(key.document).toMatchObject({ fingerprint: made.document.fingerprint, file: join(cwd, '.passover', 'evidence.key') })
    const elsewhere = mkdtempSync(join(tmpdir(), 'elsewhere-'))
    try {
      const text = readFileSync(join(cwd, 'taken.json'), 'utf8')
      writeFileSync(join(elsewhere, 'taken.json'), text)
      writeFileSync(join(elsewhere, 'their.pem'), key.document.public_key)
      const env = { NODE_OPTIONS: `--import ${NO_NETWORK}`, HOME: elsewhere, XDG_CONFIG_HOME: elsewhere, XDG_CACHE_HOME: elsewhere }
      const check = (file: string) =>
        json<Verdict & { what?: string }>(['evidence', 'verify', file, '--key', 'their.pem'], { cwd: elsewhere, env })
      expect(await check('taken.json')).toMatchObject({ code: 0, document: { ok: true, fingerprint: made.document.fingerprint } })
      // There is none, indeed: with it the same process would be told.
      const { url, user, password } = JSON.parse(readFileSync(join(cwd, '.passover', 'server.json'), 'utf8')) as Record<string, string>
      const access = { NATS_USER: user, NATS_PASSWORD: password }
      expect((await run(['list', '--server', url ?? ''], { cwd: elsewhere, env: { ...env, ...access } })).code).not.toBe(0)
      expect((await run(['list', '--server', url ?? ''], { cwd: elsewhere, env: access })).code).toBe(0)
      const at = text.indexOf('"data": "') + 30
      writeFileSync(join(elsewhere, 'changed.json'), `${text.slice(0, at)}${text[at] === 'A' ? 'B' : 'A'}${text.slice(at + 1)}`)
      expect(await check('changed.json')).toMatchObject({
        code: 1,
        document: { ok: false, what: expect.stringMatching(/entry \d+ .* was changed/) },
      })
    } finally {
      rmSync(elsewhere, { recursive: true, force: true })
    }
  })
})

describe('passover replay', () => {
  it('tells a pass again, entry by entry', async () => {
    const told = await run(['replay', id], { cwd })
    expect(told.stdout).toMatch(/request[\s\S]*work[\s\S]*return/)
    const lines = (await run(['replay', id, '--jsonl', '--speed', '1000'], { cwd })).stdout.trim().split('\n')
    expect(lines.map((line) => JSON.parse(line).kind)).toEqual(expect.arrayContaining(['request', 'work', 'return']))
    expect((await run(['replay', id, '--step'], { cwd })).code).toBe(2)
  })

  it.skipIf(!hasTerminal())('tells entry by entry at a terminal, one a key, until it is enough', async () => {
    await using steps = atTerminal(['replay', id, '--step'], cwd)
    const rest = (await run(['replay', id], { cwd })).stdout.trimEnd().split('\n')
    const entries = () => steps.stdout.split('\n').filter((line) => / \+\d/.test(line)).length
    await steps.printed('Press any key')
    for (let at = 1; at < rest.length; at++) {
      await until(`entry ${at} is told`, () => entries() >= at)
      expect(entries()).toBe(at)
      steps.child.stdin?.write(' ')
    }
    expect((await steps.ended).code).toBe(0)
    expect(entries()).toBe(rest.length)
    await using left = atTerminal(['replay', id, '--step'], cwd)
    await left.printed('request')
    left.child.stdin?.write('\u0003')
    expect((await left.ended).code).toBe(130)
  })

  it('tells a pass or a session again from a saved archive, as the installation does', async () => {
    await verify('--save', 'told')
    interface Told {
      kind: string
      pass: string
      sequence: number
    }
    const live = (await json<Told[]>(['replay', id], { cwd })).document
    const { document } = await json<Told[]>(['replay', id, '--archive', 'told'], { cwd })
    const steps = (entries: Told[]) =>
      entries.filter(({ kind }) => ['request', 'work', 'return'].includes(kind)).map(({ sequence }) => sequence)
    expect(steps(document)).toEqual(steps(live))
    const lines = (await run(['replay', id.slice(0, 20), '--archive', 'told', '--jsonl'], { cwd })).stdout.trim().split('\n')
    expect(lines.map((line) => JSON.parse(line))).toEqual(document)
    const rows = (await json<{ id: string; session_id: string }[]>(['list'], { cwd })).document
    const session = rows.find((row) => row.id === id)?.session_id ?? ''
    const told = await run(['replay', '--session', session, '--archive', 'told'], { cwd })
    expect(told.stdout).toMatch(/request[\s\S]*work[\s\S]*return/)
    expect((await run(['replay', 'no-such-pass-here', '--archive', 'told'], { cwd })).code).toBe(3)
    expect(await run(['replay', id, '--archive', 'nowhere'], { cwd })).toMatchObject({
      code: 3,
      stderr: expect.not.stringContaining('id window'),
    })
    expect(await run(['verify', '--archive', 'told/manifest.jsonl'], { cwd })).toMatchObject({
      code: 3,
      stderr: expect.stringContaining('is a file, not the folder of a saved archive'),
    })
    expect((await run(['replay', id, '--archive', 'told', '--to-prefix', 'shadow'], { cwd })).code).toBe(2)
  })

  it('says what another policy would have decided otherwise, and by which rule', async () => {
    writeFileSync(join(cwd, 'strict.json'), JSON.stringify({ subagents: { audit: { can_receive_passes: false } } }))
    const { code, document } = await json<{ otherwise: number; differences: object[] }>(['replay', '--what-if', 'strict.json'], { cwd })
    expect(code).toBe(0)
    expect(document.otherwise).toBe(1)
    expect(document.differences).toEqual([
      expect.objectContaining({
        before: 'admitted',
        after: 'E001',
        differences: [expect.objectContaining({ field: 'can_receive_passes', path: expect.stringContaining('audit') })],
      }),
    ])
    const { stdout } = await run(['replay', '--what-if', 'strict.json'], { cwd })
    expect(stdout).toContain('admitted → E001')
    expect(stdout).toMatch(/can_receive_passes: true → refused \(E001\) {2}\(.*audit/)
  })

  it('asks for nothing in another namespace unless it is told to, and never in its own', async () => {
    const planned = await json<{ pass: string; again: string }[]>(['replay', id, '--to-prefix', 'shadow', '--dry-run'], { cwd })
    expect(planned.document).toEqual([expect.objectContaining({ again: expect.stringMatching(/^replay-/), before: expect.any(String) })])
    expect((await run(['replay', id, '--to-prefix', 'shadow'], { cwd })).code).toBe(2)
    expect((await run(['replay', id, '--to-prefix', '', '--yes'], { cwd })).code).toBe(2)
  })
})
