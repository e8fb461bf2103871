import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { prepare, ROOT } from './prepare.mjs'

/**
 * `npm run pack -- <folder>`: set-up, then what other projects install: the SDK and the `passover` command with all that they stand on, as
 * tarballs. `--agents`: without the command and its services.
 */

/** What agents stand on. The rest is there for the command. */
const AGENTS = [
  '@passover/schemas',
  '@passover/core',
  '@passover/nats-server',
  '@passover/bus',
  '@passover/tracing',
  '@passover/validation',
  '@passover/sdk',
]

function packages() {
  const folders = ['packages', 'services'].flatMap((above) => readdirSync(join(ROOT, above)).map((name) => join(above, name)))
  return ['schemas', ...folders]
    .filter((folder) => existsSync(join(ROOT, folder, 'package.json')))
    .map((folder) => JSON.parse(readFileSync(join(ROOT, folder, 'package.json'), 'utf8')))
    .filter(({ private: kept }) => kept !== true)
    .map(({ name }) => name)
}

function usage() {
  process.stderr.write('Say where to: npm run pack -- <folder> [--agents]\n')
  process.exit(2)
}

const given = process.argv.slice(2)
const [folder] = given.filter((one) => one !== '--agents')
if (!folder || folder.startsWith('-') || given.length > 2) usage()
await prepare()
// npm runs scripts at the root; a folder is meant from where it was called.
const into = resolve(process.env.INIT_CWD ?? process.cwd(), folder)
mkdirSync(into, { recursive: true })
const wanted = given.includes('--agents') ? AGENTS : packages()
const args = ['pack', '--ignore-scripts', '--pack-destination', into, ...wanted.flatMap((name) => ['--workspace', name])]
const { status, stderr } = spawnSync('npm', args, { cwd: ROOT, encoding: 'utf8', shell: process.platform === 'win32' })
if (status !== 0) {
  process.stderr.write(stderr)
  process.exit(1)
}
for (const name of wanted) process.stdout.write(`  ✓ ${name}\n`)
const files = `${relative(process.env.INIT_CWD ?? process.cwd(), into) || '.'}/*.tgz`
process.stdout.write(
  `${wanted.length} packages in ${into}. In the other project: npm install --ignore-scripts ${files.startsWith('..') ? `${into}/*.tgz` : files}\n`,
)
