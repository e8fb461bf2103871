import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, realpathSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { describe, expect, it } from 'vitest'
import { cleanEnvironment, Folder, json, ROOT, run, Spawned } from '../../support/fixtures/cli.js'

interface Manifest {
  name: string
  version: string
  scripts: Record<string, string>
  dependencies?: Record<string, string>
  devDependencies?: Record<string, string>
  bin?: Record<string, string>
}

interface Made {
  written: string[]
  kept: string[]
  next: { command: string }[]
}

const read = (path: string) => JSON.parse(readFileSync(path, 'utf8'))

function link(from: string, at: string): void {
  mkdirSync(dirname(at), { recursive: true })
  symlinkSync(from, at)
}

/**
 * Does what `npm install` does, without a network: unpacks the tarballs that the project's package.json names, and links other packages from this
 * clone. Only packages that a manifest names are there, so that one that is not declared is missed.
 */
function install(project: string): void {
  const modules = join(project, 'node_modules')
  const { dependencies: named = {}, devDependencies = {} } = read(join(project, 'package.json')) as Manifest
  const unpacked = Object.entries(named).map(([name, version]) => {
    const into = join(project, 'unpacked', name)
    mkdirSync(into, { recursive: true })
    expect(spawnSync('tar', ['-xzf', resolve(project, version.replace(/^file:/, '')), '-C', into]).status, name).toBe(0)
    const manifest = read(join(into, 'package', 'package.json')) as Manifest
    expect(manifest.name).toBe(name)
    link(join(into, 'package'), join(modules, name))
    for (const [command, path] of Object.entries(manifest.bin ?? {})) link(join(into, 'package', path), join(modules, '.bin', command))
    // What npm keeps beside the workspace is of another version than the root's.
    const own = join(realpathSync(join(ROOT, 'node_modules', name)), 'node_modules')
    for (const below of Object.keys(manifest.dependencies ?? {}))
      if (existsSync(join(own, below))) link(join(own, below), join(into, 'package', 'node_modules', below))
    return manifest
  })
  const wanted = [...unpacked.flatMap(({ dependencies = {} }) => Object.keys(dependencies)), ...Object.keys(devDependencies)]
  for (const name of wanted) if (!existsSync(join(modules, name))) link(join(ROOT, 'node_modules', name), join(modules, name))
  link(join(ROOT, 'node_modules', '.bin', 'tsc'), join(modules, '.bin', 'tsc'))
}

/** What a consumer may name: every entry of SDK and operator, the union of error codes, and each kind of artifact. */
const CONSUMER = `import { connect, type ErrorCode, type FileModificationArtifact, PassOverError, type PassOverOptions, type WorkArtifact } from '@passover/sdk'
import type * as operator from '@passover/operator'
import type * as errors from '@passover/operator/errors'
import type * as http from '@passover/sdk/http'
import type * as internal from '@passover/sdk/internal'
import type * as format from '@passover/sdk/internal/format'
import type * as project from '@passover/sdk/internal/project'

export type Entries = [typeof operator, typeof errors, typeof http, typeof internal, typeof format, typeof project]

export function advice(error: unknown): string {
  if (!(error instanceof PassOverError)) return ''
  const code: ErrorCode = error.code
  // @ts-expect-error There is no such code.
  if (code === 'E999') return ''
  return code === 'E010' ? 'wait longer' : error.message
}

export const paths = (artifacts: WorkArtifact[]) =>
  artifacts.filter((one): one is FileModificationArtifact => one.type === 'file_modification').map(({ path }) => path)

export const request: PassOverOptions = { subagent: 'greeter', reason: 'r', work_context: { objective: 'o' }, priority: 'high' }
export const agent = () => connect('alice')
`

/** Fields of an interface without a doc comment, in a file of types. */
function undocumented(types: string, name: string): string[] {
  const [, body = ''] = new RegExp(`interface ${name} \\{\\n([\\s\\S]*?)\\n\\}`).exec(types) ?? []
  const fields = [...body.matchAll(/(\*\/\s*)?^ {4}(\w+)\??:/gm)]
  expect(fields.length).toBeGreaterThan(15)
  return fields.flatMap(([, comment, field = '']) => (comment ? [] : [field]))
}

describe('passover init, in a project outside of this clone', () => {
  it('makes one that type-checks, starts and gets a result, by the commands that it prints', async () => {
    using folder = new Folder()
    const project = join(folder.path, 'My Agents')
    // What is packed is no file of this clone: nobody counts what of it ran.
    const env = cleanEnvironment({ INIT_CWD: folder.path, NODE_V8_COVERAGE: undefined })
    const made = await new Spawned(spawn(process.execPath, [join(ROOT, 'infra', 'setup', 'pack.mjs'), 'packed'], { env })).ended
    expect(made, made.stderr).toMatchObject({ code: 0, stdout: expect.stringContaining('npm install --ignore-scripts packed/*.tgz') })
    expect(spawnSync('npm', ['run', 'pack'], { cwd: ROOT, encoding: 'utf8' }).status).toBe(2)

    const { document } = await json<Made>(['init', 'My Agents', '--packages', 'packed'], { cwd: folder.path })
    expect(document.next.map(({ command }) => command)).toEqual([
      "cd 'My Agents'",
      'npm install',
      'npm run up',
      'npm run greeter',
      'npm run alice',
    ])
    const manifest = read(join(project, 'package.json')) as Manifest
    expect(manifest).toMatchObject({ name: 'my-agents', private: true })
    // The registry has none of these packages: one that is not listed here could not be installed.
    const packed = [...made.stdout.matchAll(/✓ (\S+)/g)].map(([, name]) => name)
    expect(Object.keys(manifest.dependencies ?? {}).sort()).toEqual(packed.sort())
    install(project)

    // Under strict TypeScript, and without skipLibCheck: what the packages publish is checked too.
    const { compilerOptions } = read(join(project, 'agents', 'tsconfig.json'))
    expect(compilerOptions).toMatchObject({ strict: true })
    expect(compilerOptions).not.toHaveProperty('skipLibCheck')
    writeFileSync(join(project, 'agents', 'consumer.mts'), CONSUMER)
    const npm = (script: string, detached = false) =>
      new Spawned(spawn('npm', ['run', '--silent', script], { cwd: project, env, detached }))
    const built = await npm('build').ended
    expect(built, built.stdout).toMatchObject({ code: 0 })
    expect(
      undocumented(readFileSync(join(project, 'node_modules/@passover/sdk/dist/request/options.d.ts'), 'utf8'), 'PassOverOptions'),
    ).toEqual([])

    await using up = npm('up')
    await up.printed('is up', 'stdout', 120_000)
    expect(up.stderr).toContain('Policy version 1 is in force, from .opencode/pass-over.json.')
    await using greeter = npm('greeter', true)
    // As a terminal does with Ctrl-C: npm passes a signal to its shell alone.
    greeter.child.kill = (signal) => process.kill(-(greeter.child.pid ?? 0), signal)
    await greeter.printed('Press Ctrl-C to stop')
    // Printed once, by the SDK.
    expect(greeter.stdout + greeter.stderr).toMatch(/^(?![\s\S]*is waiting for work[\s\S]*is waiting for work)/)
    const alice = await npm('alice').ended
    expect(alice, alice.stderr).toMatchObject({ code: 0, stdout: 'completed Hello, world!\n' })
    expect((await run(['list'], { cwd: project })).stdout).toContain('greeter')
    writeFileSync(join(project, 'http.mjs'), "import { connectHttp } from '@passover/sdk/http'\nconnectHttp({ url: 'http://x' })\n")
    expect(spawnSync(process.execPath, ['http.mjs'], { cwd: project, encoding: 'utf8' })).toMatchObject({ status: 0, stderr: '' })

    // An editor that follows `$schema` finds all of it in the project, and says what is misspelt.
    const policy = join(project, '.opencode', 'pass-over.json')
    const schema = resolve(dirname(policy), read(policy).$schema)
    const ajv = new Ajv2020({ strict: false })
    for (const file of readdirSync(dirname(schema))) ajv.addSchema(read(join(dirname(schema), file)))
    const check = ajv.compile({ $ref: read(schema).$id })
    expect(check(read(policy)), ajv.errorsText(check.errors)).toBe(true)
    expect(check({ ...read(policy), pair: {} })).toBe(false)
  }, 300_000)

  it('leaves the package.json of a project alone, and says what it lacks', async () => {
    using folder = new Folder()
    const before = '{ "name": "shop", "dependencies": { "@passover/sdk": "*" }, "devDependencies": { "typescript": "*" } }'
    writeFileSync(join(folder.path, 'package.json'), before)
    const { code, stdout, stderr } = await run(['init'], { cwd: folder.path })
    expect(stderr).toMatch(/not published yet: .*passover init --packages/)
    expect(code).toBe(0)
    expect(stdout).toContain('unchanged: package.json')
    const { version } = read(join(ROOT, 'packages', 'cli', 'package.json')) as Manifest
    const node = (read(join(ROOT, 'package.json')) as Manifest).devDependencies?.['@types/node']
    expect(stdout).toContain(`npm install --save-dev @passover/schemas@${version} @passover/cli@${version} @types/node@${node?.slice(1)}\n`)
    expect(stdout).toContain('npx tsc -p agents\n')
    expect(stdout).not.toContain('npm run')
    expect(readFileSync(join(folder.path, 'package.json'), 'utf8')).toBe(before)
  })

  it('overwrites nothing: it names what exists, and writes no file', async () => {
    using folder = new Folder()
    mkdirSync(join(folder.path, 'agents'))
    writeFileSync(join(folder.path, 'agents', 'alice.mts'), 'mine')
    symlinkSync('/nowhere', join(folder.path, 'agents', 'greeter.mts'))
    expect(await json(['init'], { cwd: folder.path })).toMatchObject({
      code: 2,
      document: { error: { code: 'E030', message: expect.stringMatching(/: agents\/greeter\.mts, agents\/alice\.mts$/) } },
    })
    expect(readdirSync(folder.path)).toEqual(['agents'])
    expect(readdirSync(join(folder.path, 'agents')).sort()).toEqual(['alice.mts', 'greeter.mts'])
  })

  it('does not hide a policy in .opencode/config.json', async () => {
    using folder = new Folder()
    mkdirSync(join(folder.path, '.opencode'))
    writeFileSync(join(folder.path, '.opencode', 'config.json'), '{ "pass_over": {} }')
    const { code, stderr } = await run(['init'], { cwd: folder.path })
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining('.opencode/config.json') })
    expect(readdirSync(folder.path)).toEqual(['.opencode'])
  })
})
