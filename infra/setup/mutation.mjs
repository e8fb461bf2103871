import { join } from 'node:path'
import { installApart, run } from './install-apart.mjs'
import { ROOT } from './prepare.mjs'

/**
 * `npm run mutation`: StrykerJS changes packages/core in thousands of places and shows which changes no unit test notices
 * (docs/quality/mutation-testing.md). Further arguments go to Stryker, for example `-- --mutate packages/core/src/journal/state-machine.ts`.
 */

const MUTATION = join(ROOT, 'infra', 'mutation')

// Without the option npm would install a second vitest here; the tests use the workspace's.
installApart(MUTATION, ['--legacy-peer-deps'])
const stryker = join(MUTATION, 'node_modules', '@stryker-mutator', 'core', 'bin', 'stryker.js')
run(process.execPath, [stryker, 'run', join('infra', 'mutation', 'stryker.config.json'), ...process.argv.slice(2)], ROOT)
