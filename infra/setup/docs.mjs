import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from './prepare.mjs'

/**
 * `npm run docs:build` and `npm run docs:dev`: the documentation site, by VitePress. The generator has a package.json of its own in docs/, which
 * is installed here at the first use: it brings 100 MB that `npm start` and `npm test` do not need.
 */

const DOCS = join(ROOT, 'docs')
const STAMP = join(DOCS, 'node_modules', '.passover-installed')
const LOCK = readFileSync(join(DOCS, 'package-lock.json'), 'utf8')

function run(command, args, cwd) {
  const { status, error } = spawnSync(command, args, { cwd, stdio: 'inherit', shell: process.platform === 'win32' })
  if (status === 0) return
  if (error) process.stderr.write(`${command}: ${error.message}\n`)
  process.exit(status ?? 1)
}

if (!existsSync(STAMP) || readFileSync(STAMP, 'utf8') !== LOCK) {
  run('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], DOCS)
  writeFileSync(STAMP, LOCK)
}
run(process.execPath, [join('node_modules', 'vitepress', 'bin', 'vitepress.js'), process.argv[2] ?? 'build', '.'], DOCS)
