import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { ROOT } from '../setup/prepare.mjs'

/** Makes the folder that infra/image/Dockerfile is built from. Needs a build. */

const COMMAND = 'packages/cli'
/** What of a package goes along, if it is there. */
const SHIPPED = ['package.json', 'bin', 'bundle', 'dist', 'json', 'prompts']

const target = process.argv[2]
if (!target || existsSync(target)) {
  process.stderr.write('usage: node infra/image/context.mjs <folder that does not exist yet>\n')
  process.exit(2)
}
const context = resolve(target)

/** Folders of the command and of every package of ours that it stands on. */
function neededFolders() {
  const { packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8'))
  const folderOf = (name) => packages[`node_modules/${name}`]?.resolved
  const needed = new Set([COMMAND])
  for (const folder of needed) {
    const { dependencies = {} } = JSON.parse(readFileSync(join(ROOT, folder, 'package.json'), 'utf8'))
    for (const name of Object.keys(dependencies)) {
      if (packages[`node_modules/${name}`]?.link) needed.add(folderOf(name))
    }
  }
  return [...needed]
}

function workspaceFolders() {
  const { packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8'))
  return Object.values(packages).flatMap((entry) => (entry.link ? [entry.resolved] : []))
}

mkdirSync(context, { recursive: true })
for (const file of ['package.json', 'package-lock.json', 'LICENSE']) cpSync(join(ROOT, file), join(context, file))
// npm wants to see every workspace that the lock file names.
for (const folder of workspaceFolders()) cpSync(join(ROOT, folder, 'package.json'), join(context, folder, 'package.json'))
for (const folder of neededFolders()) {
  for (const part of SHIPPED) {
    const from = join(ROOT, folder, part)
    if (!existsSync(from)) continue
    cpSync(from, join(context, folder, part), { recursive: true, filter: (path) => !/\.(map|d\.ts|tsbuildinfo)$/.test(path) })
  }
}
const npm = spawnSync('npm', ['ci', '--omit=dev', '--workspace', COMMAND, '--ignore-scripts', '--no-audit', '--no-fund'], {
  cwd: context,
  stdio: ['ignore', 'ignore', 'inherit'],
  shell: process.platform === 'win32',
})
process.exit(npm.status ?? 1)
