import { mkdirSync } from 'node:fs'
import { relative, resolve } from 'node:path'
import { prepare } from './prepare.mjs'
import { packInto, publishedPackages } from './published.mjs'

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
const wanted = given.includes('--agents') ? AGENTS : publishedPackages().map(({ manifest }) => manifest.name)
try {
  packInto(into, wanted)
} catch (error) {
  process.stderr.write(`${error.message}\n`)
  process.exit(1)
}
for (const name of wanted) process.stdout.write(`  ✓ ${name}\n`)
const files = `${relative(process.env.INIT_CWD ?? process.cwd(), into) || '.'}/*.tgz`
process.stdout.write(
  `${wanted.length} packages in ${into}. In the other project: npm install --ignore-scripts ${files.startsWith('..') ? `${into}/*.tgz` : files}\n`,
)
