import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, realpathSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { cleanEnvironment, Folder, ROOT, run, Spawned, until } from './cli-harness.js'

interface Manifest {
  name: string
  dependencies?: Record<string, string>
  exports?: Record<string, unknown>
}

/** As npm lays out what was packed; of other packages only those that a manifest names are there, so that one that is not declared is missed. */
function install(packed: string, project: string): Manifest[] {
  const modules = join(project, 'node_modules')
  const installed = readdirSync(packed).map((file) => {
    const unpacked = join(project, 'unpacked', file)
    mkdirSync(unpacked, { recursive: true })
    expect(spawnSync('tar', ['-xzf', join(packed, file), '-C', unpacked]).status).toBe(0)
    const manifest = JSON.parse(readFileSync(join(unpacked, 'package', 'package.json'), 'utf8')) as Manifest
    link(join(unpacked, 'package'), join(modules, manifest.name))
    // What npm keeps beside the workspace is of another version than the root's.
    const own = join(realpathSync(join(ROOT, 'node_modules', manifest.name)), 'node_modules')
    for (const name of Object.keys(manifest.dependencies ?? {}))
      if (existsSync(join(own, name))) link(join(own, name), join(unpacked, 'package', 'node_modules', name))
    return manifest
  })
  for (const { dependencies = {} } of installed) {
    for (const name of Object.keys(dependencies))
      if (!existsSync(join(modules, name))) link(join(ROOT, 'node_modules', name), join(modules, name))
  }
  return installed
}

function link(from: string, at: string): void {
  mkdirSync(dirname(at), { recursive: true })
  symlinkSync(from, at)
}

/** The README's own. */
function example(name: string): string {
  const text = readFileSync(join(ROOT, 'README.md'), 'utf8')
  const [, code] = new RegExp(`<!-- example: ${name} -->\n\`\`\`js\n([^]*?)\`\`\``).exec(text) ?? []
  if (code === undefined) throw new Error(`the README has no example ${name}`)
  return code
}

describe('a project of its own, outside this clone', () => {
  it('has agents of three lines and the command from what npm run pack makes', async () => {
    using folder = new Folder()
    const [packed, project] = [join(folder.path, 'packed'), join(folder.path, 'project')]
    mkdirSync(project)
    // What is packed is no file of this clone: nobody counts what of it ran.
    const env = cleanEnvironment({ INIT_CWD: folder.path, NODE_V8_COVERAGE: undefined })
    const made = await new Spawned(spawn(process.execPath, [join(ROOT, 'infra', 'setup', 'pack.mjs'), 'packed'], { env })).ended
    expect(made, made.stderr).toMatchObject({ code: 0, stdout: expect.stringContaining('npm install --ignore-scripts packed/*.tgz') })
    const installed = install(packed, project)
    expect(installed.map(({ name }) => name)).toEqual(expect.arrayContaining(['@passover/sdk', '@passover/cli']))

    const node = (...args: string[]) => new Spawned(spawn(process.execPath, args, { cwd: project, env }))
    for (const name of ['greeter.mjs', 'alice.mjs']) writeFileSync(join(project, name), example(name))
    writeFileSync(join(project, 'http.mjs'), "import { connectHttp } from '@passover/sdk/http'\nconnectHttp({ url: 'http://x' })\n")
    await using up = node(join('node_modules', '@passover', 'cli', 'bin', 'passover.js'), 'up')
    await up.printed('is up', 'stdout', 120_000)
    await using _greeter = node('greeter.mjs')
    // Who is asked before it is registered is unknown, and that is right.
    await until('greeter is registered', async () => (await run(['agents'], { cwd: project })).stdout.includes('greeter'), 60_000)
    const alice = await node('alice.mjs').ended
    expect(alice, alice.stderr).toMatchObject({ code: 0, stdout: 'completed Hello, world!\n' })
    expect(await node('http.mjs').ended).toMatchObject({ code: 0, stderr: '' })
    expect(spawnSync('npm', ['run', 'pack'], { cwd: ROOT, encoding: 'utf8' }).status).toBe(2)
    expect((await run(['list'], { cwd: project })).stdout).toContain('greeter')
  }, 300_000)
})
