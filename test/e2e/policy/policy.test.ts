import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Folder, json, openProject, type Project, run, until } from '../../support/fixtures/cli.js'

/** The sample configuration, word by word. */
const configSample = readFileSync(new URL('../../support/sample-policy.json', import.meta.url), 'utf8')

let project: Project
let cwd: string

interface Failure {
  error: {
    code: string
    message: string
    hint?: string
    faults?: { path: string; line: number; suggestion?: string; places: { path: string }[] }[]
  }
}

beforeAll(async () => {
  project = await openProject()
  cwd = project.cwd
})
afterAll(() => project?.[Symbol.asyncDispose]())

const FILE = join('.opencode', 'pass-over.json')

function write(text: string, name = FILE, at = cwd): string {
  const path = join(at, name)
  mkdirSync(join(path, '..'), { recursive: true })
  writeFileSync(path, text)
  return path
}

const file = () => readFileSync(join(cwd, FILE), 'utf8')
const passover = (...args: string[]) => run(['policy', ...args], { cwd })
const said = <T = Record<string, unknown>>(...args: string[]) => json<T>(['policy', ...args], { cwd })

describe('the life of a policy', () => {
  it('is pushed, explained, changed, compared, taken back and pulled', async () => {
    expect(await said('history')).toMatchObject({ code: 0, document: [] })
    write(configSample)
    expect(await passover('push', '--dry-run')).toMatchObject({ code: 0, stdout: expect.stringContaining('Would publish version 1') })
    expect(await said('history')).toMatchObject({ document: [] })
    const pushed = await run(['policy', 'push', '--reason', 'first', '--as', 'maria'], { cwd })
    expect(pushed).toMatchObject({ code: 0, stdout: expect.stringContaining('Policy version 1 is in force') })
    expect(await passover('push')).toMatchObject({ code: 0, stdout: expect.stringContaining('No change') })

    const explained = await said<{
      version: number
      fields: { field: string; value: unknown; level: string; path: string; at?: string }[]
    }>('explain', 'alice', 'audit')
    const field = (name: string) => explained.document.fields.find((row) => row.field === name)
    expect(explained.document).toMatchObject({ version: 1, policy_name: 'pair alice->audit' })
    expect(field('timeout_ms')).toMatchObject({
      value: 60_000,
      level: 'pair',
      path: '$.pairs["alice->audit"].timeout_ms',
      at: `${FILE}:18`,
    })
    expect(field('require_user_approval')).toMatchObject({ level: 'pair' })
    expect(field('lease_ms')).toMatchObject({ value: 5_000, level: 'system' })
    expect((await passover('explain', 'alice', 'audit')).stdout).toContain('$.subagents.audit.can_modify_files')
    expect(await said('explain', 'alice', 'audit', '--override', '{"timeout_ms":90000}')).toMatchObject({
      code: 0,
      document: { policy_override: true },
    })
    expect(await said('explain', 'alice', 'audit', '--override', '{"auto_apply":true}')).toMatchObject({
      code: 4,
      document: { error: { code: 'E013', message: expect.stringContaining('auto_apply') } },
    })
    expect(await said('explain', 'alice', 'audit', '--override', '{"enabled":true}')).toMatchObject({ code: 2 })

    expect(await passover('set', 'timeout_ms', '45s', '--pair', 'alice->inspector')).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('+ $.pairs["alice->inspector"].timeout_ms 45000'),
    })
    expect(await passover('set', 'max_attempts', '2', '--to', 'inspector')).toMatchObject({
      stdout: expect.stringContaining('+ $.subagents.inspector.max_attempts 2'),
    })
    expect(await passover('set', 'max_attempts', '--to', 'inspector', '--remove')).toMatchObject({
      stdout: expect.stringContaining('- $.subagents.inspector.max_attempts'),
    })
    expect(await passover('diff')).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('- $.pairs["alice->inspector"].timeout_ms 45000'),
    })
    expect(await passover('enable', 'scout', 'audit')).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('- $.pairs["scout->audit"]'),
      stderr: expect.stringContaining('policy pull'),
    })
    expect(await passover('disable', 'scout', 'audit')).toMatchObject({ code: 2 })
    expect(await passover('disable', 'scout', 'audit', '--reason', 'on leave')).toMatchObject({ code: 0 })

    const { document: versions } =
      await said<{ version: number; by: string; reason?: string; in_force: boolean; changed: string }[]>('history')
    expect(versions.map(({ version, in_force }) => [version, in_force])).toEqual([
      [6, true],
      [5, false],
      [4, false],
      [3, false],
      [2, false],
      [1, false],
    ])
    expect(versions.at(-1)).toMatchObject({ by: 'maria', reason: 'first' })
    expect(versions[0]).toMatchObject({ reason: 'on leave', changed: expect.stringContaining('enabled') })
    expect(await passover('rollback', '9')).toMatchObject({ code: 3 })
    expect(await passover('rollback', '1')).toMatchObject({ code: 0, stdout: expect.stringContaining('Policy version 7') })
    expect((await said<{ changes: unknown[] }>('diff', '1', '7')).document.changes).toEqual([])
    expect((await said<{ changes: unknown[] }>('diff')).document.changes).toEqual([])
  })

  it('pull keeps comments, and never writes over what was not pushed unless told', async () => {
    write(`// ours\n${configSample.replace('"timeout_ms": 60000,', '"timeout_ms": 60000, // long')}`)
    await passover('set', 'timeout_ms', '20s', '--global')
    expect(await passover('pull')).toMatchObject({ code: 0 })
    expect(file()).toContain('// ours')
    expect(file()).toContain('// long')
    expect(file()).toContain('"timeout_ms": 20000')
    write(file().replace('20000', '21000'))
    expect(await passover('pull')).toMatchObject({ code: 2, stderr: expect.stringContaining('never pushed') })
    expect(file()).toContain('21000')
    expect(await passover('pull', '--dry-run')).toMatchObject({ code: 0, stdout: expect.stringContaining('21000 → 20000') })
    expect(await passover('pull', '--yes')).toMatchObject({ code: 0 })
    expect(file()).toContain('"timeout_ms": 20000')
    using folder = new Folder()
    const fresh = join(folder.path, 'new.json')
    expect(await passover('pull', fresh)).toMatchObject({ code: 0 })
    expect(JSON.parse(readFileSync(fresh, 'utf8')).pairs['scout->audit']).toEqual({ enabled: false, reason: 'conflicting specializations' })
    expect(await passover('push', fresh)).toMatchObject({ stdout: expect.stringContaining('No change') })
  })
})

describe('what may not be published', () => {
  const inForceNow = async () => (await said<{ version: number }[]>('history')).document[0]?.version ?? 0

  it('changes nothing', async () => {
    const before = await inForceNow()
    const bad = write('{ "defaults": { "timeout_ms": 0, "auto_retrun": 1 } }', 'bad.json')
    expect(await said<Failure>('push', bad)).toMatchObject({ code: 2, document: { error: { code: 'E030', faults: [{}, {}] } } })
    const conflicting = write('{ "defaults": { "timeout_ms": 5000, "lease_ms": 6000 } }', 'bad.json')
    expect(await said<Failure>('push', conflicting)).toMatchObject({ code: 2, document: { error: { code: 'E031' } } })
    expect(await passover('set', 'timeout_msec', '3', '--global')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('did you mean timeout_ms?'),
    })
    expect(await passover('set', 'max_attempts', '3', '--pair', 'alice->audit')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('belongs in a subagent’s entry or in the defaults'),
    })
    expect(await passover('set', 'timeout_ms', '3')).toMatchObject({ code: 2, stderr: expect.stringContaining('--pair') })
    expect(await passover('set', 'approval_expires_ms', '8d', '--global')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('E031'),
    })
    expect(await inForceNow()).toBe(before)
  })

  it('an agent that nobody knows is named, unless it is said that it comes later', async () => {
    await run(['agents', 'add', 'audit'], { cwd })
    await run(['agents', 'add', 'inspector'], { cwd })
    expect(await passover('disable', 'alice', 'adit', '--reason', 'x')).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/did you mean audit\?[\s\S]*--allow-missing/),
    })
    expect(await passover('disable', 'alice', 'later', '--reason', 'x', '--allow-missing')).toMatchObject({ code: 0 })
    writeFileSync(join(cwd, 'later.json'), JSON.stringify({ pairs: { 'alice->later': { timeout_ms: 5_000 } } }))
    expect(await passover('check', 'later.json')).toMatchObject({ code: 2 })
    expect(await passover('check', 'later.json', '--allow-missing')).toMatchObject({ code: 0, stdout: expect.stringContaining('1 pair,') })
    expect(await passover('enable', 'alice', 'later')).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('- $.pairs["alice->later"]'),
    })
    expect(await passover('enable', 'alice', 'later')).toMatchObject({ code: 0, stdout: expect.stringContaining('No change') })
  })

  it('an output_schema that does not compile', async () => {
    const before = await inForceNow()
    const bad = write('{ "subagents": { "audit": { "output_schema": { "type": "strnig" } } } }', 'schema.json')
    expect(await said<Failure>('push', bad)).toMatchObject({ code: 2, document: { error: { faults: [{ line: 1 }] } } })
    const setting = ['set', 'output_schema', '{"type":"strnig"}', '--to', 'audit']
    expect(await said<Failure>(...setting)).toMatchObject({ code: 2, document: { error: { code: 'E030' } } })
    expect(await inForceNow()).toBe(before)
  })

  it('two people push at once: one wins, the other hears who, and both files stay', async () => {
    const [a = '', b = ''] = [1, 2].map((n) => write(JSON.stringify({ defaults: { timeout_ms: 7_000 + n } }), `${n}.json`))
    const base = String(await inForceNow())
    const both = await Promise.all([
      run(['policy', 'push', a, '--base', base, '--as', 'maria'], { cwd }),
      run(['policy', 'push', b, '--base', base, '--as', 'jonas'], { cwd }),
    ])
    expect(both.map(({ code }) => code).sort()).toEqual([0, 1])
    const loser = both.find(({ code }) => code === 1)
    expect(loser?.stderr).toMatch(/(maria|jonas) \(unverified\) published version \d+/)
    expect(loser?.stderr).toContain('.json')
    expect(readFileSync(a, 'utf8') + readFileSync(b, 'utf8')).toContain('7002')
  })
})

describe('passover policy edit', () => {
  const edit = (script: string) =>
    run(['policy', 'edit', '--reason', 'by hand'], { cwd, env: { VISUAL: '', EDITOR: `node -e '${script}' --` } })
  const change = (body: string) =>
    `const fs = require("fs"); const p = process.argv.at(-1); let t = fs.readFileSync(p, "utf8"); ${body}; fs.writeFileSync(p, t)`

  it('publishes what was changed, nothing when nothing was, and opens again on faults', async () => {
    await passover('set', 'timeout_ms', '7001', '--global')
    expect(await edit(change(''))).toMatchObject({ code: 0, stdout: expect.stringContaining('Nothing was changed') })
    expect(await edit(change('t = t.replace(/700./, "7100")'))).toMatchObject({ code: 0, stdout: expect.stringContaining('→ 7100') })
    const twice = await edit(
      change(
        't = t.includes("✗") ? t.replace(/timeot(?=_ms.:)/, "timeout").replace("7100", "7200") : t.replace("timeout_ms", "timeot_ms")',
      ),
    )
    expect(twice).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('→ 7200'),
      stderr: expect.stringContaining('did you mean timeout_ms?'),
    })
    const given = await edit(change('t = t.replace("timeout_ms", "timeot_ms")'))
    expect(given).toMatchObject({ code: 2, stderr: expect.stringContaining('E030') })
    expect(given.stderr.match(/did you mean timeout_ms/g)).toHaveLength(1)
    expect(await edit('process.exit(3)')).toMatchObject({ code: 1, stderr: expect.stringContaining('nothing was published') })
    expect(await run(['policy', 'edit'], { cwd, env: { VISUAL: '', EDITOR: '' } })).toMatchObject({ code: 2 })
  })
})

it('a refusal names the policy’s entry, its version, and the line in the file', async () => {
  write(`{\n  "pairs": {\n    "alice->audit": {\n      "enabled": false\n    }\n  }\n}\n`)
  expect(await passover('push')).toMatchObject({ code: 0 })
  const version = (await said<{ version: number }[]>('history')).document[0]?.version
  const request = ['request', '--from', 'alice', '--to', 'audit', '--objective', 'x', '--timeout', '3s']
  await until('the pair is refused', async () => (await run(request, { cwd })).stderr.includes('E004'))
  const refused = await run(request, { cwd })
  expect(refused.code).toBe(4)
  expect(refused.stderr).toContain(`by pair alice->audit, policy version ${version}  $.pairs["alice->audit"].enabled  ${FILE}:4`)
  const { document } = await json<{ error: { rule: object } }>(request, { cwd })
  expect(document.error.rule).toEqual({
    policy_name: 'pair alice->audit',
    policy_version: version,
    policy_path: '$.pairs["alice->audit"].enabled',
    file: FILE,
    line: 4,
  })
})
