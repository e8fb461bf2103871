import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { accessSync, constants, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { tryLock } from './lock.mjs'

/** The set-up that `npm start` and `npm test` share: Node is new enough, dependencies are there, the build is fresh. */

export const ROOT = join(dirname(fileURLToPath(import.meta.url)), '..', '..')
const STAMP = join(ROOT, 'node_modules', '.passover-installed')
const LOCK = `passover-setup-${createHash('sha256').update(ROOT).digest('hex').slice(0, 12)}`
const LOOK_MS = 200

function say(text) {
  process.stderr.write(`${text}\n`)
}

function requireNode() {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  if (major > 20 || (major === 20 && minor >= 19)) return
  say(`Passover needs Node 20.19 or newer; this is ${process.versions.node}. Install a newer one and run the command again.`)
  process.exit(2)
}

/** Interval of the messages that a step still runs. */
const STILL_MS = 10_000

/** Runs a step, and says what it does before, while it runs, and when it is done. `how`: how long it may take. Ends the process if it fails. */
async function run({ doing, done, how }, command, args, env = {}) {
  const started = Date.now()
  const seconds = (digits) => `${((Date.now() - started) / 1000).toFixed(digits)} s`
  say(`  … ${doing} (${how})`)
  const timer = setInterval(() => say(`  … still ${doing} (${seconds(0)})`), STILL_MS)
  const child = spawn(command, args, {
    cwd: ROOT,
    stdio: ['ignore', 'pipe', 'pipe'],
    shell: process.platform === 'win32',
    env: { ...process.env, TURBO_TELEMETRY_DISABLED: '1', DO_NOT_TRACK: '1', npm_config_update_notifier: 'false', ...env },
  })
  const output = Promise.all([text(child.stdout), text(child.stderr)])
  const [status, why] = await once(child, 'close').catch((error) => [1, error.message])
  clearInterval(timer)
  if (status === 0) {
    say(`  ✓ ${done} (${seconds(1)})`)
    return
  }
  say(`  ✗ ${doing} failed: ${command} ${args.join(' ')}\n${(await output).join('')}${why ?? ''}`)
  process.exit(1)
}

/** What the installed tree depends on. Nothing in it is compiled for one version of Node. */
function wanted() {
  return createHash('sha256')
    .update(readFileSync(join(ROOT, 'package-lock.json')))
    .update(`${process.platform} ${process.arch}`)
    .digest('hex')
}

async function install() {
  const stamp = wanted()
  if (existsSync(STAMP) && readFileSync(STAMP, 'utf8') === stamp) return
  // No dependency needs its install script; some would compile native code that nothing here uses.
  const cache = canWriteHome() ? undefined : mkdtempSync(join(tmpdir(), 'passover-npm-'))
  const args = ['ci', '--ignore-scripts', '--no-audit', '--no-fund']
  if (cache) process.once('exit', () => rmSync(cache, { recursive: true, force: true }))
  const step = { doing: 'installing dependencies', done: 'dependencies installed', how: 'they are downloaded, which can take a minute' }
  await run(step, 'npm', args, cache && { npm_config_cache: cache })
  writeFileSync(STAMP, stamp)
}

/** npm keeps its cache there, and fails without one. */
function canWriteHome() {
  try {
    accessSync(homedir(), constants.W_OK)
    return true
  } catch {
    return false
  }
}

/** One set-up at a time: two first commands in one clone must not install over each other. */
async function exclusively(work) {
  let release = await tryLock(LOCK)
  if (!release) say('  … another set-up runs in this folder; waiting for it to end')
  while (!release) {
    await setTimeout(LOOK_MS)
    release = await tryLock(LOCK)
  }
  try {
    await work()
  } finally {
    await release()
  }
}

/** Sets the project up. `tests: false` does not build the test workspace, which the product does not need. */
export async function prepare({ tests = true } = {}) {
  requireNode()
  say('Setting up')
  await exclusively(async () => {
    await install()
    // Not by npx: started by `npx -p node@24`, it would look for that package again.
    await run({ doing: 'building', done: 'build up to date', how: 'a minute the first time, seconds later' }, process.execPath, [
      join(ROOT, 'node_modules', 'turbo', 'bin', 'turbo'),
      'run',
      'build',
      '--output-logs=errors-only',
      ...(tests ? [] : ['--filter=!@passover/test']),
    ])
  })
}
