import { mkdirSync } from 'node:fs'
import { relative, resolve } from 'node:path'
import { prepare } from './prepare.mjs'
import { packInto, publishedPackages } from './published.mjs'

/**
 * `npm run pack -- <folder>`: set-up, then tarballs of the packages that other projects install: the SDK and the `passover` command, with all their
 * dependencies in this repository. `--agents`: without the command and its services.
 */

/** Returns the names of the packages that agents need: the SDK and its dependencies in this repository. The command needs the others. */
function agentPackages() {
  const manifests = new Map(publishedPackages().map(({ manifest }) => [manifest.name, manifest]))
  const names = new Set(['@passover/sdk'])
  // The loop also visits the names that it adds.
  for (const name of names)
    for (const dependency of Object.keys(manifests.get(name).dependencies ?? {})) if (manifests.has(dependency)) names.add(dependency)
  return [...names]
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
let packed
try {
  packed = packInto(into, given.includes('--agents') ? agentPackages() : undefined)
} catch (error) {
  process.stderr.write(`${error.message}\n`)
  process.exit(1)
}
for (const name of packed.keys()) process.stdout.write(`  ✓ ${name}\n`)
const files = `${relative(process.env.INIT_CWD ?? process.cwd(), into) || '.'}/*.tgz`
process.stdout.write(
  `${packed.size} packages in ${into}. In the other project: npm install --ignore-scripts ${files.startsWith('..') ? `${into}/*.tgz` : files}\n`,
)
