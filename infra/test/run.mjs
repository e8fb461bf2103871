import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { constants, tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { prepare, ROOT } from '../setup/prepare.mjs'

/**
 * `npm test`: set-up, then every test, then one line with the sums.
 * Arguments go to vitest (a filter, `--coverage`, `--project unit`).
 */

function dockerRuns() {
  return spawnSync('docker', ['info'], { stdio: 'ignore', timeout: 10_000 }).status === 0
}

/** The first signal that asked this process to end. */
let interrupted

function vitest(report, args, more) {
  return new Promise((resolve) => {
    const child = spawn(
      process.execPath,
      [
        join(ROOT, 'node_modules', 'vitest', 'vitest.mjs'),
        'run',
        '--config',
        'test/vitest.config.ts',
        '--reporter=default',
        '--reporter=json',
        `--outputFile.json=${report}`,
        ...args,
      ],
      {
        cwd: ROOT,
        stdio: ['ignore', 'inherit', 'inherit'],
        env: { ...process.env, TESTCONTAINERS_RYUK_DISABLED: 'true', NODE_ENV: 'test', ...more },
      },
    )
    for (const signal of ['SIGINT', 'SIGTERM'])
      process.on(signal, () => {
        interrupted ??= signal
        child.kill(signal)
      })
    child.on('close', (code) => resolve(code ?? 1))
  })
}

/** The failure on one line, without its stack: in a cut log, this line may be all that is left. */
function onOneLine(message = '') {
  const lines = message.split('\n').map((line) => line.trim())
  return lines
    .filter((line) => line && !line.startsWith('at '))
    .join(' | ')
    .slice(0, 2000)
}

function sums(report) {
  if (!existsSync(report)) return undefined
  const {
    numPassedTests: passed,
    numFailedTests: failed,
    numPendingTests: pending,
    numTodoTests: todo,
    testResults,
  } = JSON.parse(readFileSync(report, 'utf8'))
  const brokenFiles = testResults
    .filter((file) => file.status === 'failed' && file.assertionResults.every((test) => test.status !== 'failed'))
    .map((file) => relative(ROOT, file.name))
  const failedTests = testResults.flatMap((file) =>
    file.assertionResults
      .filter((test) => test.status === 'failed')
      .map((test) => `${relative(ROOT, file.name)}: ${test.fullName}: ${onOneLine(test.failureMessages[0])}`),
  )
  return { passed, failed: failed + brokenFiles.length, skipped: pending + todo, names: [...brokenFiles, ...failedTests] }
}

/** Loaded late: what it is built on is there only once `prepare` has installed it. */
async function shortCoverage(children) {
  const { judgeCoverage } = await import('./coverage.mjs')
  return judgeCoverage({ root: ROOT, children })
}

await prepare()
const docker = dockerRuns()
const out = mkdtempSync(join(tmpdir(), 'passover-test-'))
const report = join(out, 'report.json')
const args = process.argv.slice(2)
const children = args.includes('--coverage') ? join(out, 'children') : undefined
if (children) mkdirSync(children)
const code = await vitest(report, args, children ? { PASSOVER_CHILD_COVERAGE: children } : {})
if (interrupted) {
  rmSync(out, { recursive: true, force: true })
  process.stdout.write(`\nInterrupted (${interrupted}): the tests did not all run, so nothing is counted\n`)
  process.exit(128 + constants.signals[interrupted])
}
const counted = sums(report)
const short = children ? await shortCoverage(children) : []
rmSync(out, { recursive: true, force: true })
if (!docker)
  process.stdout.write(
    '\nLeft out: the container suites (no Docker engine answers `docker info`; `bash infra/ci/docker.sh` installs and starts one on Debian).\n',
  )
if (!counted) {
  process.stdout.write('\nvitest wrote no report\n0 passed, 1 failed\n')
  process.exit(1)
}
// Said at the end, where it is found in a long log; .ci/run repeats these lines.
for (const what of [...counted.names, ...short]) process.stdout.write(`Failed: ${what}\n`)
const failed = (code !== 0 && counted.failed === 0 ? 1 : counted.failed) + short.length
process.stdout.write(`\n${counted.passed} passed, ${failed} failed${counted.skipped ? `, ${counted.skipped} skipped` : ''}\n`)
process.exit(failed > 0 || code !== 0 ? 1 : 0)
