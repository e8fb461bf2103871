import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The set-up that `npm start` and `npm test` share: Node is new enough, dependencies are there, the build is fresh. */

export const ROOT = join(dirname(fileURLToPath(import.meta.url)), '..', '..')
const STAMP = join(ROOT, 'node_modules', '.passover-installed')
const LOCK = join(tmpdir(), `passover-setup-${createHash('sha256').update(ROOT).digest('hex').slice(0, 12)}`)

function say(text) {
  process.stderr.write(`${text}\n`)
}

function requireNode() {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  if (major > 20 || (major === 20 && minor >= 19)) return
  say(`Passover needs Node 20.19 or newer; this is ${process.versions.node}. Install a newer one and run the command again.`)
  process.exit(2)
}

function run(what, command, args) {
  const started = Date.now()
  const result = spawnSync(command, args, {
    cwd: ROOT,
    stdio: ['ignore', 'pipe', 'pipe'],
    encoding: 'utf8',
    maxBuffer: 64 << 20,
    shell: process.platform === 'win32',
    env: { ...process.env, TURBO_TELEMETRY_DISABLED: '1', DO_NOT_TRACK: '1', npm_config_update_notifier: 'false' },
  })
  if (result.status === 0) {
    say(`  ✓ ${what} (${((Date.now() - started) / 1000).toFixed(1)} s)`)
    return
  }
  say(`  ✗ ${what}: ${command} ${args.join(' ')}\n${result.stdout ?? ''}${result.stderr ?? result.error?.message ?? ''}`)
  process.exit(1)
}

/** What the installed tree depends on. Nothing in it is compiled for one version of Node. */
function wanted() {
  return createHash('sha256')
    .update(readFileSync(join(ROOT, 'package-lock.json')))
    .update(`${process.platform} ${process.arch}`)
    .digest('hex')
}

function install() {
  const stamp = wanted()
  if (existsSync(STAMP) && readFileSync(STAMP, 'utf8') === stamp) return
  // No dependency needs its install script; some would compile native code that nothing here uses.
  run('dependencies installed', 'npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'])
  writeFileSync(STAMP, stamp)
}

/** One set-up at a time: two first commands in one clone must not install over each other. */
function exclusively(work) {
  const deadline = Date.now() + 300_000
  for (;;) {
    try {
      writeFileSync(LOCK, String(process.pid), { flag: 'wx' })
      break
    } catch {
      const owner = Number(existsSync(LOCK) ? readFileSync(LOCK, 'utf8') : 0)
      if (owner && !alive(owner)) rmSync(LOCK, { force: true })
      if (Date.now() > deadline) {
        say(`Another set-up (process ${owner}) has held ${LOCK} for five minutes; remove it if that is wrong.`)
        process.exit(1)
      }
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200)
    }
  }
  try {
    work()
  } finally {
    rmSync(LOCK, { force: true })
  }
}

function alive(pid) {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error.code === 'EPERM'
  }
}

/** `tests: false`: without the test workspace, which nobody needs to run the product. */
export function prepare({ tests = true } = {}) {
  requireNode()
  say('Setting up')
  exclusively(() => {
    install()
    // Not by npx: started by `npx -p node@24`, it would look for that package again.
    run('build up to date', process.execPath, [
      join(ROOT, 'node_modules', 'turbo', 'bin', 'turbo'),
      'run',
      'build',
      '--output-logs=errors-only',
      ...(tests ? [] : ['--filter=!@passover/test']),
    ])
  })
}
