import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { prepare, ROOT } from '../setup/prepare.mjs'

/**
 * `npm run test:upgrade`: builds the previous version, which previous.json names by its commit, into a cached folder, and runs it
 * against the current one. Where the commit or its packages are not available (a shallow clone, no network), it says so and ends with 0.
 */
const { commit } = JSON.parse(readFileSync(join(ROOT, 'infra', 'test', 'previous.json'), 'utf8'))
const CACHE = join(ROOT, 'node_modules', '.cache', 'passover-previous')
const built = join(CACHE, commit)

function run(command, args, options = {}) {
  return spawnSync(command, args, { cwd: ROOT, stdio: 'inherit', ...options }).status === 0
}

/** Why the previous version is not there; undefined when it is. */
function missing() {
  if (existsSync(built)) return undefined
  if (!run('git', ['cat-file', '-e', `${commit}^{commit}`], { stdio: 'ignore' })) {
    return `commit ${commit} is not in this clone; \`git fetch --unshallow\` gets it`
  }
  const making = `${built}.${process.pid}`
  const archive = `${making}.tar`
  mkdirSync(making, { recursive: true })
  try {
    const here = { cwd: making }
    if (!run('git', ['archive', '-o', archive, commit]) || !run('tar', ['xf', archive], here)) return `commit ${commit} was not unpacked`
    if (!run('npm', ['ci', '--no-audit', '--no-fund', '--prefer-offline'], here))
      return `the packages of commit ${commit} were not installed`
    if (!run('npx', ['turbo', 'run', 'build'], here)) return `commit ${commit} was not built`
    // Complete or not there at all: a build that was ended early leaves nothing that the next one takes for a whole.
    renameSync(making, built)
    return undefined
  } finally {
    rmSync(making, { recursive: true, force: true })
    rmSync(archive, { force: true })
  }
}

await prepare()
const why = missing()
if (why) {
  process.stdout.write(`\nLeft out: the previous version against the current one (${why}).\n`)
  process.exit(0)
}
const vitest = join(ROOT, 'node_modules', 'vitest', 'vitest.mjs')
const args = [vitest, 'run', '--config', 'test/vitest.config.ts', '--project', 'e2e', 'test/e2e/installation/versions.test.ts']
process.exit(run(process.execPath, args, { env: { ...process.env, NODE_ENV: 'test' } }) ? 0 : 1)
