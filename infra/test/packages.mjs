import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { prepare, ROOT } from '../setup/prepare.mjs'
import { packInto, publishedPackages } from '../setup/published.mjs'

/**
 * `npm run test:packages`: packs every published package, installs the tarballs by npm in a project outside of this clone, type-checks a program that
 * imports each of their entries under strict TypeScript, and runs an agent and a subagent on `passover up`, on each supported Node.
 *
 * `--offline` downloads nothing: third-party packages are linked from this clone, and only the Node that runs this script is tested.
 */

/** Versions of Node to test; npm's `node` package contains them. */
const NODES = ['20', '22', '24', '26']
const UP_TIMEOUT_MS = 120_000
const offline = process.argv.includes('--offline')

const STRICT = {
  target: 'ES2022',
  // Declarations of @msgpack/msgpack use DOM types.
  lib: ['ES2023', 'ESNext.Disposable', 'DOM'],
  module: 'NodeNext',
  strict: true,
  noUncheckedIndexedAccess: true,
  types: ['node'],
  outDir: 'out',
}

/**
 * Strict, with the declarations of all packages checked. With `exactOptionalPropertyTypes` and without the DOM, `skipLibCheck` is needed:
 * declarations of third-party packages do not pass.
 */
const CONFIGS = {
  'tsconfig.json': STRICT,
  'tsconfig.exact.json': { ...STRICT, lib: ['ES2023', 'ESNext.Disposable'], exactOptionalPropertyTypes: true, skipLibCheck: true },
}

const AGENTS = `import { apply, connect, disconnect, onPass, PassOverError, type PassOverOptions } from '@passover/sdk'

const request: PassOverOptions = { subagent: 'greeter', reason: 'politeness', work_context: { objective: 'world' }, timeout_ms: 60_000 }
await using worker = await onPass('greeter', (pass) => \`Hello, \${pass.objective}!\`, { concurrency: 1 })
await using alice = await connect('alice')
const output = await alice.passOver(request)
const unknown = await alice.apply('no-such-pass').then(() => 'applied', (error: unknown) => (error instanceof PassOverError ? error.code : String(error)))
console.log(output.status, output.output, worker.subagent, unknown, typeof apply, typeof disconnect)
`

function run(command, args, options = {}) {
  const { status, stdout, stderr, error } = spawnSync(command, args, { encoding: 'utf8', maxBuffer: 64 << 20, ...options })
  if (status !== 0) throw new Error(`${command} ${args.join(' ')} failed: ${error?.message ?? ''}\n${stdout}${stderr}`)
  return stdout.trim()
}

/** Lists the entries that a program can import: those with declarations. */
function entriesOf(manifests) {
  return manifests.flatMap(({ name, exports }) =>
    Object.entries(exports).flatMap(([path, { types }]) => (types ? [join(name, path).replaceAll('\\', '/')] : [])),
  )
}

/** Unpacks the tarballs and links their third-party dependencies from this clone, in the layout that `npm install` creates. */
function link(project, tarballs) {
  const linkFrom = (from, at) => {
    if (existsSync(at)) return
    mkdirSync(dirname(at), { recursive: true })
    symlinkSync(realpathSync(from), at, 'junction')
  }
  for (const { folder, manifest } of publishedPackages()) {
    const into = join(project, 'node_modules', manifest.name)
    mkdirSync(into, { recursive: true })
    run('tar', ['-xzf', tarballs.get(manifest.name), '--strip-components=1', '-C', into])
    for (const name of Object.keys({ ...manifest.dependencies, ...manifest.optionalDependencies })) {
      if (name.startsWith('@passover/')) continue
      // npm installs a version that differs from the root's in the package's own node_modules.
      const own = join(ROOT, folder, 'node_modules', name)
      if (existsSync(own)) linkFrom(own, join(into, 'node_modules', name))
      else linkFrom(join(ROOT, 'node_modules', name), join(project, 'node_modules', name))
    }
  }
  for (const name of ['typescript', '@types/node']) linkFrom(join(ROOT, 'node_modules', name), join(project, 'node_modules', name))
}

function makeProject(project) {
  const tarballs = packInto(project)
  const { devDependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  const write = (name, value) => writeFileSync(join(project, name), typeof value === 'string' ? value : JSON.stringify(value))
  write('package.json', {
    name: 'consumer',
    private: true,
    type: 'module',
    dependencies: Object.fromEntries([...tarballs].map(([name, path]) => [name, `file:${path}`])),
    devDependencies: { typescript: devDependencies.typescript, '@types/node': devDependencies['@types/node'] },
  })
  for (const [name, compilerOptions] of Object.entries(CONFIGS)) write(name, { compilerOptions, files: ['entries.mts', 'agents.mts'] })
  const entries = entriesOf(publishedPackages().map(({ manifest }) => manifest))
  const imports = entries.map((entry, index) => `import * as e${index} from '${entry}'\n`).join('')
  const counts = entries.map((_, index) => `Object.keys(e${index}).length`)
  write('entries.mts', `${imports}console.log([${counts.join(', ')}].length)\n`)
  write('agents.mts', AGENTS)
  if (offline) link(project, tarballs)
  else
    run('npm', ['install', '--ignore-scripts', '--no-audit', '--no-fund', '--prefer-offline'], {
      cwd: project,
      shell: process.platform === 'win32',
    })
  return entries
}

/** Runs the programs on one version of Node, against a new installation. */
async function runOn(node, project, entries) {
  const { NATS_URL, PASSOVER_SERVER, PASSOVER_AGENT, PASSOVER_AS, NODE_V8_COVERAGE, ...env } = process.env
  const options = { cwd: project, env }
  const imported = run(node, [join('out', 'entries.mjs')], options)
  if (imported !== String(entries.length)) throw new Error(`${imported} of ${entries.length} entries were imported`)
  const command = join(project, 'node_modules', '@passover', 'cli', 'bin', 'passover.js')
  const up = spawn(node, [command, 'up'], { ...options, stdio: ['ignore', 'pipe', 'pipe'] })
  const closed = new Promise((resolve) => up.once('close', resolve))
  try {
    await untilUp(up)
    const said = run(node, [join('out', 'agents.mjs')], options)
    if (said !== 'completed Hello, world! greeter E041 function function') throw new Error(`the agents printed: ${said}`)
  } finally {
    up.kill('SIGINT')
    await closed
  }
}

function untilUp(up) {
  return new Promise((resolve, reject) => {
    let said = ''
    const failed = (why) => reject(new Error(`passover up ${why}:\n${said}`))
    const timer = setTimeout(() => failed(`was not ready within ${UP_TIMEOUT_MS} ms`), UP_TIMEOUT_MS)
    for (const stream of [up.stdout, up.stderr])
      stream.setEncoding('utf8').on('data', (text) => {
        said += text
        if (!said.includes('is up')) return
        clearTimeout(timer)
        resolve()
      })
    up.once('close', (code) => failed(`ended with ${code}`))
    up.once('error', (error) => failed(error.message))
  })
}

/** Returns the path of a version of Node. npx downloads it the first time. */
function nodeOf(version) {
  const args = ['--yes', '--package', `node@${version}`, 'node', '--print', 'process.execPath']
  return run('npx', args, { cwd: tmpdir(), shell: process.platform === 'win32' })
}

await prepare()
const project = realpathSync(mkdtempSync(join(tmpdir(), 'passover-consumer-')))
try {
  const entries = makeProject(project)
  for (const config of Object.keys(CONFIGS))
    run(process.execPath, [join('node_modules', 'typescript', 'bin', 'tsc'), '-p', config], { cwd: project })
  process.stdout.write(`✓ ${entries.length} entries type-check\n`)
  for (const node of offline ? [process.execPath] : NODES.map(nodeOf)) {
    await runOn(node, project, entries)
    process.stdout.write(`✓ Node ${run(node, ['--version'])}\n`)
  }
} finally {
  rmSync(project, { recursive: true, force: true, maxRetries: 5 })
}
