import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from './prepare.mjs'

/** Lists the published packages (those that are not private), with the path of their folder from the root and their manifest. */
export function publishedPackages() {
  const folders = ['packages', 'services'].flatMap((above) => readdirSync(join(ROOT, above)).map((name) => join(above, name)))
  return ['schemas', ...folders]
    .filter((folder) => existsSync(join(ROOT, folder, 'package.json')))
    .map((folder) => ({ folder, manifest: JSON.parse(readFileSync(join(ROOT, folder, 'package.json'), 'utf8')) }))
    .filter(({ manifest }) => manifest.private !== true)
}

/** Runs `npm pack` for built packages: by default, all that are published. Returns the path of each tarball, by package name. */
export function packInto(folder, names = publishedPackages().map(({ manifest }) => manifest.name)) {
  const args = ['pack', '--json', '--ignore-scripts', '--pack-destination', folder, ...names.flatMap((name) => ['--workspace', name])]
  const options = { cwd: ROOT, encoding: 'utf8', maxBuffer: 64 << 20, shell: process.platform === 'win32' }
  const { status, stdout, stderr } = spawnSync('npm', args, options)
  if (status !== 0) throw new Error(stderr)
  // npm 12 gives an object by package name where earlier versions give an array.
  return new Map(Object.values(JSON.parse(stdout)).map(({ name, filename }) => [name, join(folder, filename)]))
}
