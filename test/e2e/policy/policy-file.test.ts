import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { cli, Folder, json, run } from '../../support/fixtures/cli.js'

/** The sample configuration, word by word. */
const configSample = readFileSync(new URL('../../support/sample-policy.json', import.meta.url), 'utf8')

interface Failure {
  error: { code: string; faults?: { line: number; places: { path: string; line: number }[] }[] }
}

const FILE = join('.opencode', 'pass-over.json')

function write(text: string, name: string, at: string): void {
  const path = join(at, name)
  mkdirSync(join(path, '..'), { recursive: true })
  writeFileSync(path, text)
}

describe('passover policy check', () => {
  it('accepts the sample configuration as it is, without a server too', async () => {
    using folder = new Folder()
    write(configSample, FILE, folder.path)
    const checked = await run(['policy', 'check'], { cwd: folder.path })
    expect(checked).toMatchObject({ code: 0, stdout: expect.stringContaining('3 pairs, 2 subagents') })
    expect(checked.stderr).toContain('no server')
    const below = join(folder.path, 'a', 'b')
    mkdirSync(below, { recursive: true })
    mkdirSync(join(folder.path, '.git'))
    expect(await run(['policy', 'check', '--offline'], { cwd: below })).toMatchObject({ code: 0 })
    expect(await run(['policy', 'check', '--offline', FILE], { cwd: folder.path })).toMatchObject({ code: 0 })
    const env = { PASSOVER_CONFIG: join(folder.path, FILE) }
    expect(await run(['policy', 'check', '--offline'], { cwd: '/', env })).toMatchObject({ code: 0 })
    expect(await run(['policy', 'check', '--offline'], { cwd: '/' })).toMatchObject({
      code: 3,
      stderr: expect.stringContaining('policy pull'),
    })
  })

  it('says what is wrong with a file that is not text, is a link to nothing, or is the second one', async () => {
    using folder = new Folder()
    const check = (env = {}) => run(['policy', 'check', '--offline'], { cwd: folder.path, env })
    const path = join(folder.path, FILE)
    mkdirSync(join(path, '..'))
    const unreadable: [Buffer, string][] = [
      [Buffer.from('\ufeff{}', 'utf16le'), 'it is encoded as UTF-16, not as UTF-8'],
      [Buffer.from('{\n "pairs": {"al\xe9->b": {}}}', 'latin1'), 'it is not UTF-8: line 2 has the byte 0xe9'],
    ]
    for (const [bytes, why] of unreadable) {
      writeFileSync(path, bytes)
      expect(await check()).toMatchObject({ code: 2, stderr: expect.stringContaining(`${FILE} cannot be read: ${why} (E030)`) })
    }
    writeFileSync(path, '\ufeff{}')
    write('{ "pass_over": {} }', join('.opencode', 'config.json'), folder.path)
    expect(await check()).toMatchObject({ code: 0, stderr: expect.stringContaining('Ignored pass_over in .opencode/config.json') })
    rmSync(path)
    symlinkSync('nowhere.json', path)
    expect(await check()).toMatchObject({ code: 0, stderr: expect.stringContaining('is a symbolic link that leads nowhere') })
    expect(await check({ PASSOVER_CONFIG: path })).toMatchObject({
      code: 3,
      stderr: expect.stringContaining('(PASSOVER_CONFIG) is a link to nowhere.json, which does not exist'),
    })
  })

  it('tells a document with thousands of faults in short', async () => {
    using folder = new Folder()
    const pairs = Object.fromEntries(Array.from({ length: 5_000 }, (_, at) => [`a${at}=>b`, {}]))
    write(JSON.stringify({ pairs }, null, 1), FILE, folder.path)
    const { code, stderr } = await run(['policy', 'check', '--offline'], { cwd: folder.path })
    expect(code).toBe(2)
    expect(stderr).toContain('has 5000 errors')
    expect(stderr).toContain(`${FILE}:52:3  $.pairs["a49=>b"]`)
    expect(stderr).toContain('and 4950 more')
  })

  it('compiles every output_schema, and says where it stands beside what else is wrong', async () => {
    using folder = new Folder()
    const schemas = `"audit": { "output_schema": { "type": "strnig" } },\n "scout": { "output_schema": { "type": "object" } }`
    write(`{\n "defaults": { "timeout_ms": 0 },\n "subagents": {\n ${schemas}\n }\n}`, FILE, folder.path)
    const found = await json<Failure>(['policy', 'check', '--offline'], { cwd: folder.path })
    expect(found).toMatchObject({ code: 2, document: { error: { code: 'E030' } } })
    expect(found.document.error.faults?.map(({ places: [place], line }) => [place?.path, line])).toEqual([
      ['$.defaults.timeout_ms', 2],
      ['$.subagents.audit.output_schema', 4],
    ])
  })

  it('reads the key of .opencode/config.json, and leaves a config that is not ours alone', async () => {
    using folder = new Folder()
    mkdirSync(join(folder.path, '.git'))
    write('{ "theme": "dark" }', join('x', '.opencode', 'config.json'), folder.path)
    write(`{ "theme": "dark", "pass_over": { "defalts": {} } }`, join('.opencode', 'config.json'), folder.path)
    const checked = await run(['policy', 'check', '--offline'], { cwd: join(folder.path, 'x') })
    expect(checked).toMatchObject({ code: 2, stderr: expect.stringContaining('did you mean defaults?') })
    expect(checked.stderr).toContain(`config.json:1:35`)
  })

  it('names every fault with file, line, column, path, what stands there and what was expected', async () => {
    using folder = new Folder()
    const text = `{
  // comments are fine
  "defaults": { "timeout_ms": "30s", "auto_retrun": true },
  "pairs": {
    "alice => audit": { "enabled": true },
    "alice->audit": { "enabled": true },
  },
  "subagents": { "audit": { "can_receive_passes": false, "can_receive_passes": false } },
}`
    write(text, FILE, folder.path)
    const { code, stderr } = await run(['policy', 'check', '--offline'], { cwd: folder.path })
    expect(code).toBe(2)
    expect(stderr).toContain('4 errors (E030)')
    expect(stderr).toContain(`${FILE}:3:17  $.defaults.timeout_ms is "30s", expected`)
    expect(stderr).toContain('did you mean 30000 (milliseconds)?')
    expect(stderr).toContain(`${FILE}:3:38  $.defaults.auto_retrun`)
    expect(stderr).toContain('did you mean "alice->audit"?')
    expect(stderr).toContain('is set twice')
    const { document } = await json<Failure>(['policy', 'check', '--offline'], { cwd: folder.path })
    expect(document.error.faults?.map(({ line }) => line)).toEqual([3, 3, 5, 8])
    write(
      text
        .replace('"30s"', '30000')
        .replace('auto_retrun', 'auto_return')
        .replace('"alice => audit": { "enabled": true },', '')
        .replace('"can_receive_passes": false, ', ''),
      FILE,
      folder.path,
    )
    const conflict = await json<Failure>(['policy', 'check', '--offline'], { cwd: folder.path })
    expect(conflict).toMatchObject({ code: 2, document: { error: { code: 'E031' } } })
    expect(conflict.document.error.faults?.[0]?.places).toMatchObject([
      { path: '$.pairs["alice->audit"].enabled', line: 6 },
      { path: '$.subagents.audit.can_receive_passes', line: 8 },
    ])
    write('{ "defaults": { "timeout_ms": 1, }, "pairs" }', FILE, folder.path)
    expect(await run(['policy', 'check', '--offline'], { cwd: folder.path })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('a colon'),
    })
  })
})

describe('passover up in a project with a policy file', () => {
  it('makes it version 1 before requests are taken, and later says where the two differ', async () => {
    using folder = new Folder()
    const cwd = folder.path
    write(configSample, FILE, cwd)
    {
      await using up = cli(['up', '--as', 'maria'], { cwd })
      await up.printed('is up', 'stdout', 120_000)
      expect(up.stderr).toContain(`Policy version 1 is in force, from ${FILE}.`)
      const { document } = await json<object[]>(['policy', 'history'], { cwd })
      expect(document).toMatchObject([{ version: 1, by: 'maria', in_force: true }])
      await run(['policy', 'set', 'timeout_ms', '20s', '--global'], { cwd })
    }
    await using again = cli(['up'], { cwd })
    await again.printed('is up', 'stdout', 120_000)
    expect(again.stderr).toContain(`${FILE} differs from policy version 2`)
    expect((await json<object[]>(['policy', 'history'], { cwd })).document).toHaveLength(2)
  })

  it('does not start on a file that is not valid while nothing else is in force', async () => {
    using folder = new Folder()
    write('{ "defaults": { "timeout_ms": "soon" } }', FILE, folder.path)
    const up = await run(['up'], { cwd: folder.path })
    expect(up).toMatchObject({ code: 2, stderr: expect.stringContaining('$.defaults.timeout_ms is "soon"') })
    expect(up.stdout).toBe('')
  })
})
