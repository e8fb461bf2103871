import { spawnSync } from 'node:child_process'
import { prepare, ROOT } from './prepare.mjs'

/** `npm run bench`: set-up, then the benchmark. */
prepare()
const { status } = spawnSync(process.execPath, ['test/dist/bench/run.js', ...process.argv.slice(2)], { cwd: ROOT, stdio: 'inherit' })
process.exit(status ?? 1)
