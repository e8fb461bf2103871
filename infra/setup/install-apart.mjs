import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** Runs a command. Ends this process if it fails. */
export function run(command, args, cwd) {
  const { status, error } = spawnSync(command, args, { cwd, stdio: 'inherit', shell: process.platform === 'win32' })
  if (status === 0) return
  if (error) process.stderr.write(`${command}: ${error.message}\n`)
  process.exit(status ?? 1)
}

/** Installs the package.json of a folder that is no workspace, at its first use and whenever its lock file changes. */
export function installApart(folder, options = []) {
  const stamp = join(folder, 'node_modules', '.passover-installed')
  const lock = readFileSync(join(folder, 'package-lock.json'), 'utf8')
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === lock) return
  run('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund', ...options], folder)
  writeFileSync(stamp, lock)
}
